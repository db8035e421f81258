-- Lanes: their policies, and which of them have ready work.
--
-- A lane is active while one of its rings holds a host. Active lanes of a stage stand in one sorted set per
-- tier, scored by their pass (stride scheduling): the lowest goes first and moves on by 1/weight. A lane
-- that returns starts at the tier's virtual time, so idling earns nothing.

local Lane = {}

-- What is counted per lane, as `<lane id>|<what>`.
local LANE_COUNTS = {'q', 'd', 'l', 'added', 'dup', 'done', 'replaced', 'retried', 'failed', 'expired', 'overflow'}

function Lane.by_id(S, id)
  local lane = S.config.lanes[id]
  if lane == nil then
    local raw = call('HGET', S.b .. K.lane_policy, id)
    lane = raw and unpack_msg(raw) or false
    if lane then
      -- The names of its counts, made once: they are used for every request.
      lane.id = id
      lane.f = {
        q = id .. '|q', l = id .. '|l', done = id .. '|done', added = id .. '|added', dup = id .. '|dup',
        open = 'g|' .. lane.group .. '|open', pages = 'g|' .. lane.group .. '|pages',
      }
    end
    S.config.lanes[id] = lane
  end
  return lane
end

function Lane.save(S, lane)
  local id, f = lane.id, lane.f
  lane.id, lane.f = nil, nil
  call('HSET', S.b .. K.lane_policy, id, pack(lane))
  lane.id, lane.f = id, f
end

function Lane.by_name(S, name)
  local id = S.config.names[name]
  if id == nil then
    id = call('HGET', S.b .. K.lane_names, name)
    S.config.names[name] = id
  end
  return id and Lane.by_id(S, id)
end

function Lane.group(S, name)
  local group = S.config.groups[name]
  if group == nil then
    local raw = call('HGET', S.b .. K.group_policy, name)
    group = raw and unpack_msg(raw) or false
    S.config.groups[name] = group
  end
  return group
end

local function tier_key(S, lane)
  return S.b .. K.active .. lane.stage .. ':' .. lane.tier
end

function Lane.activate(S, lane)
  if lane.paused ~= '' then return end
  local key = tier_key(S, lane)
  if call('ZSCORE', key, lane.id) then return end
  if call('EXISTS', S.b .. K.priorities .. lane.id) == 0 then return end
  local pass = tonumber(call('HGET', S.b .. K.passes, lane.id)) or 0
  local virtual = tonumber(call('HGET', S.b .. K.virtual, lane.stage .. ':' .. lane.tier)) or 0
  if pass < virtual then
    pass = virtual
    call('HSET', S.b .. K.passes, lane.id, pass)
  end
  call('ZADD', key, pass, lane.id)
  call('ZADD', S.b .. K.tiers .. lane.stage, lane.tier, lane.tier)
end

function Lane.deactivate(S, lane)
  local key = tier_key(S, lane)
  if call('ZREM', key, lane.id) == 1 and call('EXISTS', key) == 0 then
    call('ZREM', S.b .. K.tiers .. lane.stage, lane.tier)
  end
end

function Lane.advance(S, lane, pass, taken)
  call('HSET', S.b .. K.virtual, lane.stage .. ':' .. lane.tier, pass)
  local moved = pass + taken / lane.weight
  call('HSET', S.b .. K.passes, lane.id, moved)
  call('ZADD', tier_key(S, lane), 'XX', moved, lane.id)
end

-- Why nothing may be leased from this lane now, or ''.
function Lane.closed(S, lane)
  if lane.paused ~= '' then return lane.paused end
  local group = Lane.group(S, lane.group)
  if not group then return 'no_group' end
  if group.paused ~= '' then return group.paused end
  local held = S.held_groups
  if not held then
    held = {}
    S.held_groups = held
  end
  local reason = held[lane.group]
  if reason == nil then
    reason = call('HGET', S.b .. K.group_held, lane.group) or ''
    held[lane.group] = reason
  end
  return reason
end

-- Why some lane of a stage may not serve, or ''. Lanes that may not serve stand in no sorted set, so they are looked for
-- here: paused ones once per policy stamp, held groups each time (there are few).
function Lane.shut(S, stage)
  local known = S.config.shut
  if not known then
    known = {}
    S.config.shut = known
    for _, id in ipairs(call('HKEYS', S.b .. K.lane_policy)) do
      local lane = Lane.by_id(S, id)
      local group = lane and Lane.group(S, lane.group)
      local reason = lane and (lane.paused ~= '' and lane.paused or group and group.paused) or ''
      if reason ~= '' then known[lane.stage] = reason end
    end
  end
  if known[stage] then return known[stage] end
  local held = call('HGETALL', S.b .. K.group_held)
  for i = 1, #held, 2 do
    for _, id in ipairs(call('SMEMBERS', S.b .. K.group_lanes .. held[i])) do
      local lane = Lane.by_id(S, id)
      if lane and lane.stage == stage then return held[i + 1] end
    end
  end
  return ''
end

-- Holds a group for a cause that passes by itself (a full stream, a page limit).
function Lane.hold(S, group, reason)
  call('HSET', S.b .. K.group_held, group, reason)
  if S.held_groups then S.held_groups[group] = reason end
end

function Lane.wake_group(S, group)
  for _, id in ipairs(call('SMEMBERS', S.b .. K.group_lanes .. group)) do
    local lane = Lane.by_id(S, id)
    if lane then Lane.activate(S, lane) end
  end
end

-- round, counts at its begin, counts of the round before (round.lua).
function Lane.round_base(S, group)
  local raw = call('HGET', S.b .. K.round_base, group)
  return raw and unpack_msg(raw) or {0, {0, 0, 0, 0}, {0, 0, 0, 0}}
end

-- How many pages of a group may still be leased in its present round: as many as were neither done nor are in a worker's hands.
function Lane.pages_left(S, group, policy)
  if policy.max_pages == 0 then return huge end
  local left = policy.max_pages - count_now(S, 'g|' .. group .. '|pages') + Lane.round_base(S, group)[2][1]
  for _, id in ipairs(call('SMEMBERS', S.b .. K.group_lanes .. group)) do left = left - count_now(S, id .. '|l') end
  return left
end

-- What of a group is still full, or nil.
function Lane.full(S, group)
  local policy = Lane.group(S, group)
  if not policy then return nil end
  if Lane.pages_left(S, group, policy) <= 0 then return 'pages_full' end
  if Items.full(S, group, policy) then return 'items_full' end
  if policy.max_dead > 0 and call('ZCARD', S.b .. K.dead_order .. group) >= policy.max_dead then return 'dead_full' end
end

-- One cause has passed; the group goes on unless there is another.
function Lane.unhold(S, group, reason)
  if call('HGET', S.b .. K.group_held, group) ~= reason then return end
  local other = Lane.full(S, group)
  if other then
    Lane.hold(S, group, other)
  else
    call('HDEL', S.b .. K.group_held, group)
    if S.held_groups then S.held_groups[group] = '' end
    Lane.wake_group(S, group)
  end
end

-- Leases ended, by group: where they ended without a page, others may be leased instead. To be said when all is counted.
function Lane.unhold_pages(S)
  for group in pairs(S.fewer_leased) do Lane.unhold(S, group, 'pages_full') end
  S.fewer_leased = {}
end
