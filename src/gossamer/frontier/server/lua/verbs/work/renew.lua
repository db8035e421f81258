-- renew: moves the deadlines of leases that are still held.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {incarnation, lease_ms, leases [[id, nonce]...]}
-- Returns msgpack {letters: r renewed or l lost, new deadline ms}
-- Cost    O(n log leases); harmless when repeated

verb('renew', {'allow-oom'}, function(S, h)
  local out, order, ids = {}, {}, {}
  local deadline = S.now + h.lease
  for i, l in ipairs(h.leases) do ids[i] = l[HELD.id] end
  local raws = #ids > 0 and read_many(S.b .. K.leases, ids) or {}
  for i, l in ipairs(h.leases) do
    local v = raws[i] and lease_table(raws[i])
    -- A lease that ran out but was not given away yet is still this worker's.
    if v and v[LEASE.incarnation] == h.i and v[LEASE.nonce] == l[HELD.nonce] then
      out[i] = 'r'
      order[#order + 1] = deadline
      order[#order + 1] = ids[i]
    else
      out[i] = 'l'
    end
  end
  for first = 1, #order, UNPACK_MAX do
    call('ZADD', S.b .. K.deadlines, 'XX', unpack(order, first, min(first + UNPACK_MAX - 1, #order)))
  end
  -- One that has left is not listed again.
  call('ZADD', S.b .. K.worker_seen, 'XX', S.now, h.i)
  finish(S)
  return pack({table.concat(out), deadline})
end)
