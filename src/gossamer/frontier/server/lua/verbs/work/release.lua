-- release: gives back leases whose requests were not sent; they go ahead of other work and nothing counts against them.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {incarnation, leases [[id, nonce, ms since its host was asked for something else in its place, or nil]...]}
-- Returns letters: r released or l lost
-- Cost    O(n log leases); a repeat answers l and changes nothing

verb('release', {'allow-oom'}, function(S, h)
  S.wake_lanes, S.fewer_leased, S.incarnation, S.given_back = {}, {}, false, 0
  local out, gone, ids = {}, {}, {}
  for i, l in ipairs(h.leases) do ids[i] = l[SENT.id] end
  if #ids == 0 then return '' end
  local raws = read_many(S.b .. K.leases, ids)
  local marks = read_many(S.b .. K.marks, ids)
  local seen = {}
  for i, l in ipairs(h.leases) do
    local v = raws[i] and lease_table(raws[i])
    if v and v[LEASE.incarnation] == h.i and v[LEASE.nonce] == l[SENT.nonce] and not seen[ids[i]] then
      seen[ids[i]] = true
      out[i] = 'r'
      gone[#gone + 1] = ids[i]
      if l[SENT.age] then Host.sent(S, v[LEASE.host], v[LEASE.nonce], S.now - l[SENT.age], v[LEASE.lane_id]) end
      local lane = put_down(S, v, mark_of(marks[i], v[LEASE.nonce]), true)
      if lane then
        fewer_of(S, lane, 1)
        count(S, lane.id .. '|q', 1)
        if v[LEASE.alone] == 1 then
          v[LEASE.attempts] = v[LEASE.attempts] - 1
          call('RPUSH', S.b .. K.suspects, pack({tonumber(ids[i]), v}))
          S.m.x = S.m.x + 1
          journal(S, {lane.name, v[LEASE.host], v[LEASE.priority], again(tonumber(ids[i]), v[LEASE.attempts], v[LEASE.strikes], v[LEASE.record], v[LEASE.losses])})
        else
          Queue.push_front(S, lane, v[LEASE.priority], v[LEASE.host], again(tonumber(ids[i]), v[LEASE.attempts] - 1, v[LEASE.strikes], v[LEASE.record], v[LEASE.losses]))
        end
      end
    else
      out[i] = 'l'
    end
  end
  drop_leases(S, gone)
  for _, lane in pairs(S.wake_lanes) do Lane.activate(S, lane) end
  Lane.unhold_pages(S)
  finish(S)
  return table.concat(out)
end)
