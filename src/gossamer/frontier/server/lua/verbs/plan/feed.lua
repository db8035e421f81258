-- feed: moves due pages into the queues of their lanes, as the leading planner does. Never more than a lane has room
-- for. From a leader's first call on, found pages wait for it, until it no longer leads.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {term (of the leader; 0: the caller need not lead, and no page waits for it), lanes[] {lane, most (pages to move), limit
--            (queued and delayed requests here that it may lead to; -1: the lane's own limits alone), due pages as the caller knows them, or nil}, log {limit, scheduled} of
--            the planner's cycle, to be kept with the result, or nil}
-- Returns msgpack {now, rows[] {moved, due pages that are left, queued and delayed; all 0 for a lane that keeps no records}}
-- Cost    O(most log pages)

local CYCLES_KEPT = 500

-- The result of the planner's cycle: when, in which term, by which numbers, and for each lane {lane, share, moved, left}.
local function keep_cycle(S, h, rows)
  local lanes = {}
  for i, one in ipairs(h.lanes) do lanes[i] = {one[1], one[2], rows[i][1], rows[i][2]} end
  call('RPUSH', S.b .. K.cycles, pack({S.now, h.term, h.log[1], h.log[2], lanes}))
  call('LTRIM', S.b .. K.cycles, -CYCLES_KEPT, -1)
end

local function feed(S, name, most, limit, due)
  local lane = Lane.by_name(S, name)
  if not lane or not lane.records then return {0, 0, 0} end
  -- It gets no share, and is as it was.
  if most <= 0 and due then return {0, due, limit} end
  local queued, moved = count_now(S, lane.f.q) + count_now(S, lane.id .. '|d'), 0
  if limit >= 0 then most = min(most, limit - queued) end
  if most > 0 and not memory_full(S) then moved = Due.feed(S, lane, most) end
  if moved > 0 then S.changed = true end
  return {moved, Due.left(S, lane), queued + moved}
end

verb('feed', {'allow-oom'}, function(S, h)
  local refusal, rows = Leader.refusal(S, h.term), {}
  if refusal then return refusal end
  if h.term > 0 then Due.feeder(S) end
  for i, one in ipairs(h.lanes) do rows[i] = feed(S, one[1], one[2], one[3], one[4]) end
  Due.next_look(S)
  if h.log then keep_cycle(S, h, rows) end
  finish(S)
  return pack({S.now, rows})
end)
