-- Lanes: their policies, and which of them have ready work.
--
-- A lane is active while one of its rings holds a host. Active lanes of a stage and group stand in one sorted set per tier, scored
-- by their pass (stride scheduling): the lowest goes first and moves on by 1/weight. The groups that have active lanes stand in one
-- sorted set per stage, by a pass of their own: between groups only that counts, whatever the tiers inside them. Who returns
-- starts at the virtual time, so idling earns nothing.
--
-- `shares` is a hash per group: lane id -> pass, `v|stage|tier` -> virtual time of that tier, `g|stage` -> the group's pass.

local Lane = {}

-- What is counted per lane, as `<lane id>|<what>`.
local LANE_COUNTS = {'q', 'd', 'l', 'added', 'dup', 'done', 'replaced', 'retried', 'failed', 'expired', 'overflow'}
-- What is counted per group, as `g|<group>|<what>`.
local GROUP_COUNTS = {'open', 'moved', 'pages', 'items', 'dead', 'lost', 'refused_items', 'refused_children', 'l', 'ib', 'it'}

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
        open = 'g|' .. lane.group .. '|open', pages = 'g|' .. lane.group .. '|pages', gl = 'g|' .. lane.group .. '|l',
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

-- The ids of a group's lanes.
function Lane.ids(S, group)
  local members = S.config.members
  if not members then
    members = {}
    S.config.members = members
  end
  local ids = members[group]
  if not ids then
    ids = call('SMEMBERS', S.b .. K.group_lanes .. group)
    members[group] = ids
  end
  return ids
end

local function stage_of(lane)
  return lane.stage .. '|' .. lane.group
end

-- The pass at which a group waits for its turn in a stage.
function Lane.group_pass(S, stage, group)
  local place = stage .. '|' .. group
  if not S.passes then S.passes = {} end
  local pass = S.passes[place]
  if not pass then
    local own, virtual = call('HGET', S.b .. K.shares .. group, 'g|' .. stage), call('HGET', S.b .. K.virtual, stage)
    pass = max(tonumber(own) or 0, tonumber(virtual) or 0)
    S.passes[place] = pass
  end
  return pass
end

-- The group has work in this stage: it takes turns with the others.
local function line_up(S, stage, group)
  local key = S.b .. K.turns .. stage
  if not call('ZSCORE', key, group) then call('ZADD', key, Lane.group_pass(S, stage, group), group) end
end

function Lane.activate(S, lane)
  if lane.paused ~= '' then return end
  local place = stage_of(lane)
  local key = S.b .. K.active .. place .. '|' .. lane.tier
  if not call('ZSCORE', key, lane.id) then
    if call('EXISTS', S.b .. K.priorities .. lane.id) == 0 then return end
    local v = call('HMGET', S.b .. K.shares .. lane.group, lane.id, 'v|' .. lane.stage .. '|' .. lane.tier)
    local pass, virtual = tonumber(v[1]) or 0, tonumber(v[2]) or 0
    if pass < virtual then pass = virtual end
    call('ZADD', key, pass, lane.id)
    call('ZADD', S.b .. K.tiers .. place, lane.tier, lane.tier)
  end
  line_up(S, lane.stage, lane.group)
end

function Lane.deactivate(S, lane)
  local place = stage_of(lane)
  local key, tiers = S.b .. K.active .. place .. '|' .. lane.tier, S.b .. K.tiers .. place
  if call('ZREM', key, lane.id) == 1 and call('EXISTS', key) == 0 then
    call('ZREM', tiers, lane.tier)
    if call('EXISTS', tiers) == 0 then Lane.rest(S, lane.stage, lane.group) end
  end
end

-- The group takes no turns in this stage until a lane of it is activated again.
function Lane.rest(S, stage, group)
  call('ZREM', S.b .. K.turns .. stage, group)
end

-- Why nothing may be leased from this group now, or ''.
function Lane.group_closed(S, name)
  local group = Lane.group(S, name)
  if not group then return 'no_group' end
  if group.paused ~= '' then return group.paused end
  local held = S.held_groups
  if not held then
    held = {}
    S.held_groups = held
  end
  local reason = held[name]
  if reason == nil then
    reason = call('HGET', S.b .. K.group_held, name) or ''
    held[name] = reason
  end
  return reason
end

-- Why nothing may be leased from this lane now, or ''.
function Lane.closed(S, lane)
  if lane.paused ~= '' then return lane.paused end
  return Lane.group_closed(S, lane.group)
end

-- Notes for each stage whether a lane of the group is kept from serving it, and why. Lanes that may not serve stand in no sorted
-- set, so they are noted here. To be called after every change of what is paused or held.
function Lane.note_shut(S, group, stages)
  local why = {}
  for stage in pairs(stages or {}) do why[stage] = '' end
  for _, id in ipairs(Lane.ids(S, group)) do
    local lane = Lane.by_id(S, id)
    if lane then
      local reason = Lane.closed(S, lane)
      if reason ~= '' or not why[lane.stage] then why[lane.stage] = reason end
    end
  end
  for stage, reason in pairs(why) do
    local key = S.b .. K.shut .. stage
    if reason == '' then call('HDEL', key, group) else call('HSET', key, group, reason) end
  end
end

-- Why some lane of a stage may not serve, or ''.
function Lane.shut(S, stage)
  local one = call('HRANDFIELD', S.b .. K.shut .. stage, 1, 'WITHVALUES')
  return one[2] or ''
end

-- Holds a group for a cause that passes by itself (a full stream, a page limit).
function Lane.hold(S, group, reason)
  if call('HGET', S.b .. K.group_held, group) == reason then return end
  call('HSET', S.b .. K.group_held, group, reason)
  if S.held_groups then S.held_groups[group] = reason end
  Lane.note_shut(S, group)
end

function Lane.wake_group(S, group)
  for _, id in ipairs(Lane.ids(S, group)) do
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
  local done, leased = count_now(S, 'g|' .. group .. '|pages'), count_now(S, 'g|' .. group .. '|l')
  return policy.max_pages - done - leased + Lane.round_base(S, group)[2][1]
end

-- What of a group is still full, or nil.
function Lane.full(S, group)
  local policy = Lane.group(S, group)
  if not policy then return nil end
  if Lane.pages_left(S, group, policy) <= 0 then return 'pages_full' end
  if Items.full(S, group, policy) then return 'items_full' end
  if policy.max_dead > 0 and call('ZCARD', S.b .. K.dead_order .. group) >= policy.max_dead then return 'dead_full' end
end

-- One cause has passed; the group continues unless there is another.
function Lane.unhold(S, group, reason)
  if call('HGET', S.b .. K.group_held, group) ~= reason then return end
  local other = Lane.full(S, group)
  if other then
    Lane.hold(S, group, other)
  else
    call('HDEL', S.b .. K.group_held, group)
    if S.held_groups then S.held_groups[group] = '' end
    Lane.note_shut(S, group)
    Lane.wake_group(S, group)
  end
end

-- Leases ended, by group: where they ended without a page, others may be leased instead. To be called when all is counted.
function Lane.unhold_pages(S)
  for group in pairs(S.fewer_leased) do Lane.unhold(S, group, 'pages_full') end
  S.fewer_leased = {}
end

-- A lane that was defined while it was dropped has been others before: a partition that goes back may have it as one of these.
local FORMER_KEPT = 20

function Lane.births(lane)
  local births = {unpack(lane.former or {})}
  births[#births + 1] = lane.born
  while #births > FORMER_KEPT do table.remove(births, 1) end
  return births
end

local DROPPED_TTL = 604800000 -- ms for which it is known what was dropped
local DROPPED_KEPT = 1000

-- A partition that goes back to an earlier state may have a group or lane again: the others know then that it was dropped.
function Lane.note_dropped(S, births)
  local key = S.b .. K.dropped
  for _, born in ipairs(births) do call('ZADD', key, S.now, born) end
  call('ZREMRANGEBYSCORE', key, '-inf', S.now - DROPPED_TTL)
  call('ZREMRANGEBYRANK', key, 0, -1 - DROPPED_KEPT)
end
