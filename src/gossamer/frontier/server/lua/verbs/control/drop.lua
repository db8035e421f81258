-- drop: empties a lane and takes it away, a bounded part per call. The first call closes it: nothing can be
-- added any more. Leased requests of it end as usual; a retry among them is dropped with it. What is dropped is no longer
-- seen; a memory that no other lane uses goes as a whole.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {salt, lane, budget (requests per call), strikes, force
--            (leases of it run out now: the lane was dropped before, and this partition has forgotten it), only
--            (the birth of its group, if it is dropped with it: a lane of another group of that name stays) or nil, born (the birth of the
--            lane that is meant: another one of its name stays) or nil}
-- Returns msgpack {done (1; 0; 2: the lane is gone, and memories wait for `purge`), dropped in this call, known (0: there is no such lane)}
-- Cost    O(budget)

local function drop_queues(S, lane, budget)
  local dropped = 0
  while dropped < budget do
    local priority = call('ZRANGE', S.b .. K.priorities .. lane.id, 0, 0)[1]
    if not priority then return dropped, true end
    local ring = S.b .. K.ring .. lane.id .. ':' .. priority
    local host = call('LINDEX', ring, 0)
    if not host then
      call('ZREM', S.b .. K.priorities .. lane.id, priority)
    else
      local n, left = 0, false
      for _, kind in ipairs({K.front, K.queue}) do
        local key = S.b .. kind .. lane.id .. ':' .. priority .. ':' .. host
        local gone = call('LPOP', key, budget - dropped - n + 1)
        if gone then
          n = n + #gone
          if kind == K.front then S.m.front = S.m.front - #gone end
          Seen.unmark(S, lane, gone)
        end
        left = left or call('EXISTS', key) == 1
      end
      dropped = dropped + n
      if not left then call('LPOP', ring) end
    end
  end
  return dropped, false
end

-- Parked places of the lane come back into its rings, to be dropped there.
local function unpark_all(S, lane, cursor)
  local last = true
  for _, id in ipairs(Lane.ids(S, lane.group)) do
    local other = Lane.by_id(S, id)
    last = last and not (other and not other.closed and other.stage == lane.stage)
  end
  local page = call('HSCAN', S.b .. K.hosts, cursor, 'COUNT', 200)
  for i = 1, #page[2], 2 do
    local name = page[2][i]
    local key = S.b .. K.waiting .. lane.id .. ':' .. name
    for _, priority in ipairs(call('ZRANGE', key, 0, -1)) do enter_ring(S, lane, priority, name) end
    call('UNLINK', key)
    if last then Host.leave(S, name, lane.stage, lane.group) end
  end
  return page[1]
end

local function drop_delayed(S, lane, cursor)
  local page, gone, records = call('ZSCAN', S.b .. K.delayed, cursor, 'COUNT', 200), {}, {}
  for i = 1, #page[2], 2 do
    local _, v = unpack_msg(page[2][i])
    if v[QUEUED.lane] == lane.id then
      gone[#gone + 1] = page[2][i]
      records[#records + 1] = v[QUEUED.record]
    end
  end
  if #gone > 0 then call_chunked('ZREM', S.b .. K.delayed, gone) end
  Seen.unmark(S, lane, records)
  return page[1], #gone
end

local function drop_suspects(S, lane)
  local dropped = 0
  for _, raw in ipairs(call('LRANGE', S.b .. K.suspects, 0, 999)) do
    local v = unpack_msg(raw)[2]
    if v[LEASE.lane_id] == lane.id then
      Seen.unmark(S, lane, {v[LEASE.record]})
      call('LREM', S.b .. K.suspects, 1, raw)
      S.m.x = S.m.x - 1
      dropped = dropped + 1
    end
  end
  return dropped
end

-- Leases of the lane run out now.
local function end_leases(S, lane, cursor)
  local page = call('HSCAN', S.b .. K.leases, cursor, 'COUNT', 200)
  for i = 1, #page[2], 2 do
    if lease_table(page[2][i + 1])[LEASE.lane_id] == lane.id then call('ZADD', S.b .. K.deadlines, 'XX', 'LT', S.now, page[2][i]) end
  end
  return page[1]
end

local function lane_gone(S)
  return call('EXISTS', S.b .. K.purge) == 1 and 2 or 1
end

verb('drop', {'allow-oom'}, function(S, h)
  local lane = Lane.by_name(S, h.lane)
  if lane and h.only and Lane.group(S, lane.group).born ~= h.only then lane = nil end
  if lane and h.born and lane.born ~= h.born then lane = nil end
  if not lane then return pack({lane_gone(S), 0, 0}) end
  if not lane.closed then
    Lane.deactivate(S, lane)
    lane.closed, lane.paused = 'hosts:0', 'dropped'
    Lane.save(S, lane)
    bump_config(S, h.salt)
    lane = Lane.by_id(S, lane.id)
    Lane.note_shut(S, lane.group)
  end
  if h.force and not lane.forced then lane.closed, lane.forced = 'leases:0', true end
  -- Leases hold the lane until they end. Where no worker calls any more, those that ran out end here.
  if count_now(S, lane.id .. '|l') > 0 then
    S.wake_lanes, S.fewer_leased, S.incarnation = {}, {}, false
    Lease.reclaim(S, h.strikes)
    for _, other in pairs(S.wake_lanes) do Lane.activate(S, other) end
    Lane.unhold_pages(S)
  end
  local phase, cursor = string.match(lane.closed, '^(%a+):(.*)$')
  local queued, delayed, done = 0, 0, false
  if phase == 'leases' then
    cursor = end_leases(S, lane, cursor)
    if cursor == '0' then phase = 'hosts' end
  elseif phase == 'hosts' then
    cursor = unpark_all(S, lane, cursor)
    if cursor == '0' then phase = 'queues' end
  elseif phase == 'queues' then
    local finished
    queued, finished = drop_queues(S, lane, h.budget)
    if finished then
      queued = queued + drop_suspects(S, lane)
      phase, cursor = 'delayed', '0'
    end
  else
    cursor, delayed = drop_delayed(S, lane, cursor)
    done = cursor == '0' and count_now(S, lane.id .. '|l') == 0 and count_now(S, lane.id .. '|q') - queued <= 0
      and count_now(S, lane.id .. '|d') - delayed <= 0
    if not done and cursor == '0' then phase = 'hosts' end
  end
  count(S, lane.id .. '|q', -queued)
  count(S, lane.id .. '|d', -delayed)
  open_change(S, lane.group, -queued - delayed)
  if done then
    call('HDEL', S.b .. K.lane_names, lane.name)
    call('HDEL', S.b .. K.lane_policy, lane.id)
    call('HDEL', S.b .. K.shares .. lane.group, lane.id)
    for _, what in ipairs(LANE_COUNTS) do
      S.counts[lane.id .. '|' .. what] = nil
      call('HDEL', S.b .. K.counts, lane.id .. '|' .. what)
    end
    call('SREM', S.b .. K.group_lanes .. lane.group, lane.id)
    bump_config(S, h.salt)
    Lane.note_shut(S, lane.group, {[lane.stage] = true})
    Seen.leave(S, lane.group, lane.seen)
    Lane.note_dropped(S, {lane.born or h.salt})
  else
    lane.closed = phase .. ':' .. cursor
    Lane.save(S, lane)
  end
  Seen.save(S)
  finish(S)
  return pack({done and lane_gone(S) or 0, queued + delayed, 1})
end)
