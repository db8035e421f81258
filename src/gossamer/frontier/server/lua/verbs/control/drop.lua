-- drop: empties a lane and removes it, a bounded part per call. The first call closes it: nothing can be
-- added after it. Its leased requests end as usual; a retry among them is dropped with it. What is dropped is no longer
-- seen; a memory that no other lane uses goes as a whole.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {salt, lane, budget (requests per call), strikes, force
--            (leases of it run out now: the lane was dropped before, and this partition has forgotten it), only
--            (the birth of its group, if it is dropped with it: a lane of another group of that name stays) or nil, births (of the lane that is
--            meant, on every partition: another one of its name stays; none: whichever is there)[] or nil, hold (it is emptied and stays,
--            until it is empty on all partitions; without it the births are noted as dropped), reopen (it was defined on another
--            partition meanwhile: it stays, with what is left in it), replaces (the round whose rest is dropped, with hold: nothing
--            happens in another one, and the next one opens the lane again, or time does if no further call comes) or nil, term (of the planner that leads) or nil}
-- Returns msgpack {done (1; 0; 2: the lane is gone, and memories wait for `purge`; 3: it is empty and stays), dropped in this call,
--            known (0: there is no such lane; 1; 2: it was defined again, so it is another one), its births[]}
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

local function is_empty(S, lane, queued, delayed)
  return count_now(S, lane.id .. '|l') == 0 and count_now(S, lane.id .. '|q') - queued <= 0
    and count_now(S, lane.id .. '|d') - delayed <= 0
end

local function one_of(births, born)
  for _, each in ipairs(births) do
    if each == born then return true end
  end
  return #births == 0
end

-- Whether this drop has come to its end before.
local function was_dropped(S, births)
  for _, born in ipairs(births) do
    if call('ZSCORE', S.b .. K.dropped, born) then return true end
  end
  return false
end

-- As define makes it.
local function birth(lane, salt)
  return salt .. sub(lane.name, #lane.group + 1)
end

local function reopen(S, lane, salt)
  lane.former = Lane.births(lane)
  lane.closed, lane.forced, lane.paused, lane.born = nil, nil, '', birth(lane, salt)
  Lane.save(S, lane)
  bump_config(S, salt)
  Lane.activate(S, Lane.by_id(S, lane.id))
  Lane.note_shut(S, lane.group, {[lane.stage] = true})
end

verb('drop', {'allow-oom'}, function(S, h)
  local refused = Leader.refusal(S, h.term)
  if refused then return refused end
  local lane = Lane.by_name(S, h.lane)
  if h.replaces and (not lane or Round.present(S, lane.group) ~= h.replaces or (lane.closed and not lane.replaced)) then
    return pack({3, 0, lane and 1 or 0, {}})
  end
  if lane and h.only and Lane.group(S, lane.group).born ~= h.only then lane = nil end
  local known = lane and 1 or 0
  if lane and h.births and not one_of(h.births, lane.born) then
    lane, known = nil, was_dropped(S, h.births) and 0 or 2
  end
  if h.reopen then
    if lane and lane.closed then reopen(S, lane, h.salt) end
    finish(S)
    return pack({1, 0, known, {}})
  end
  -- On every partition, those of all: one that goes back may have it by another birth than the others.
  if h.births and not h.hold then
    Lane.note_dropped(S, h.births)
    S.changed = true
  end
  if not lane then
    finish(S)
    return pack({lane_gone(S), 0, known, {}})
  end
  lane.born = lane.born or birth(lane, h.salt)
  if not h.replaces then lane.replaced = nil end
  if not lane.closed then
    Lane.deactivate(S, lane)
    if h.replaces then lane.replaced = lane.paused end
    lane.closed, lane.paused = 'hosts:0', 'dropped'
    Lane.save(S, lane)
    bump_config(S, h.salt)
    lane = Lane.by_id(S, lane.id)
    Lane.note_shut(S, lane.group)
  end
  if h.replaces then Round.keep_closed(S, lane) end
  if h.force and not lane.forced then lane.closed, lane.forced = 'leases:0', true end
  -- Leases hold the lane until they end. Where no worker calls, those that ran out end here.
  if count_now(S, lane.id .. '|l') > 0 then
    S.wake_lanes, S.fewer_leased, S.incarnation = {}, {}, false
    Lease.reclaim(S, h.strikes)
    for _, other in pairs(S.wake_lanes) do Lane.activate(S, other) end
    Lane.unhold_pages(S)
  end
  local phase, cursor = string.match(lane.closed, '^(%a+):(.*)$')
  local queued, delayed, found = 0, 0, 0
  if phase == 'leases' then
    cursor = end_leases(S, lane, cursor)
    if cursor == '0' then phase = 'hosts' end
  elseif phase == 'hosts' then
    cursor = unpark_all(S, lane, cursor)
    if cursor == '0' then phase = 'queues' end
  elseif phase == 'empty' then
    if not is_empty(S, lane, 0, 0) then phase, cursor = 'hosts', '0' end
  elseif phase == 'queues' then
    local finished
    queued, finished = drop_queues(S, lane, h.budget)
    if finished then
      queued = queued + drop_suspects(S, lane)
      phase, cursor = 'delayed', '0'
    end
  else
    cursor, delayed = drop_delayed(S, lane, cursor)
    if cursor == '0' then phase = is_empty(S, lane, queued, delayed) and 'empty' or 'hosts' end
  end
  local done = phase == 'empty' and not h.hold
  count(S, lane.id .. '|q', -queued)
  count(S, lane.id .. '|d', -delayed)
  open_change(S, lane.group, -queued - delayed)
  if done then
    Daily.leave(S, lane)
    call('HDEL', S.b .. K.lane_names, lane.name)
    call('HDEL', S.b .. K.lane_policy, lane.id)
    call('HDEL', S.b .. K.shares .. lane.group, lane.id)
    -- Pages that wait go with it.
    found = count_now(S, lane.id .. '|w')
    open_change(S, lane.group, -found)
    Pages.keep(S, lane.id, nil)
    S.counts[lane.id .. '|w'] = nil
    call('HDEL', S.b .. K.counts, lane.id .. '|w')
    for _, what in ipairs(LANE_COUNTS) do
      S.counts[lane.id .. '|' .. what] = nil
      call('HDEL', S.b .. K.counts, lane.id .. '|' .. what)
    end
    call('SREM', S.b .. K.group_lanes .. lane.group, lane.id)
    bump_config(S, h.salt)
    Lane.note_shut(S, lane.group, {[lane.stage] = true})
    Seen.leave(S, lane.group, lane.seen)
    -- With its group, whose birth is noted: a drop of that may be broken off, and the lane be kept elsewhere.
    if not h.births then Lane.note_dropped(S, {h.salt}) end
  else
    lane.closed = phase .. ':' .. cursor
    Lane.save(S, lane)
  end
  Seen.save(S)
  finish(S)
  return pack({done and lane_gone(S) or phase == 'empty' and 3 or 0, queued + delayed + found, 1, Lane.births(lane)})
end)
