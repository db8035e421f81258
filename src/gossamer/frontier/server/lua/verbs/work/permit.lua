-- permit: a slot of a host without a request, for robots.txt, media and inline downloads; it is settled or
-- runs out like a lease.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {incarnation, sequence, nonce, lease_ms, strikes, host}
-- Returns msgpack {id or 0, wait ms or -1 (until a slot is freed), deadline, nonce}
-- Cost    O(log leases); idempotent by (incarnation, sequence)

verb('permit', {'allow-oom'}, function(S, h)
  local kept, misuse = kept_answer(S, h.i .. '/p', h.s)
  if misuse then return misuse end
  if kept then return pack({kept[2], kept[3], kept[4], kept[5]}) end
  S.looked, S.wake_lanes, S.fewer_leased, S.incarnation, S.given_back = 0, {}, {}, false, 0
  Lease.reclaim(S, h.strikes)
  local host = Host.get(S, h.host)
  local free, wake = Host.capacity(S, h.host, host)
  local id, wait, deadline = 0, -1, S.now + h.lease
  if free > 0 then
    Host.occupy(S, h.host, host, nil, nil, 1, true)
    id = S.m.id + 1
    S.m.id = id
    local text = format('%d', id)
    call('HSET', S.b .. K.leases, text, pack('', h.host, 0, 1, 0, h.i, h.n, 0, ''))
    call('ZADD', S.b .. K.deadlines, deadline, text)
    count(S, 'w|' .. h.i, 1)
  elseif wake then
    wait = wake - S.now
  end
  for _, lane in pairs(S.wake_lanes) do Lane.activate(S, lane) end
  Lane.unhold_pages(S)
  finish(S)
  keep_answer(S, h.i .. '/p', {h.s, id, wait, deadline, h.n})
  return pack({id, wait, deadline, h.n})
end)
