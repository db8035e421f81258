-- release: gives back leases whose requests were not sent; they go ahead of other work and nothing counts against them.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {incarnation, leases [[id, nonce, ms since its host was asked for something else in its place, or nil]...]}
-- Returns letters: r released or l lost
-- Cost    O(n log leases); a repeat answers l and changes nothing

local function release(keys, args)
  local S, problem = begin(keys[1])
  if not S then return problem end
  local h = unpack_msg(args[1])
  S.wake_lanes, S.fewer_leased, S.incarnation, S.given_back = {}, {}, false, 0
  local out, gone, ids = {}, {}, {}
  for i, l in ipairs(h.leases) do ids[i] = l[1] end
  if #ids == 0 then return '' end
  local raws = read_many(S.b .. K.leases, ids)
  local marks = read_many(S.b .. K.marks, ids)
  local seen = {}
  for i, l in ipairs(h.leases) do
    local v = raws[i] and lease_table(raws[i])
    if v and v[6] == h.i and v[7] == l[2] and not seen[ids[i]] then
      seen[ids[i]] = true
      out[i] = 'r'
      gone[#gone + 1] = ids[i]
      if l[3] then Host.sent(S, v[2], v[7], S.now - l[3], v[1]) end
      local lane = put_down(S, v, mark_of(marks[i], v[7]), true)
      if lane then
        fewer_of(S, lane, 1)
        count(S, lane.id .. '|q', 1)
        if v[8] == 1 then
          v[4] = v[4] - 1
          call('RPUSH', S.b .. K.suspects, pack({tonumber(ids[i]), v}))
          S.m.x = S.m.x + 1
          journal(S, {lane.name, v[2], v[3], again(tonumber(ids[i]), v[4], v[5], v[9], v[10])})
        else
          Queue.push_front(S, lane, v[3], v[2], again(tonumber(ids[i]), v[4] - 1, v[5], v[9], v[10]))
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
end

register('release', release, {'allow-oom'})
