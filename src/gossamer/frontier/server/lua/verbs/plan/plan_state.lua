-- plan_state: what planners base decisions on: the rounds of all groups and what waits; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {known (the state that the caller has; '': none), lanes (whether to return what waits in each lane)}
-- Returns {msgpack {now ms, state, documents version, leader {term, name, until ms}, groups [[name, has a start, round, paused, held,
--            open, leased, lanes [[name, queued, delayed, leased]]...]], two for each group: the right to its start and the row of its
--            round, msgpack as they are stored, or ''}; without groups if the state is the known one
-- Cost    O(groups + lanes), or O(1) if nothing has changed

local LANE_WAITING = {'q', 'd', 'l'}

local function read_all(S, key)
  return flat_table(call('HGETALL', S.b .. key))
end

local function lane_rows(S, name, wanted)
  local lanes = {}
  for _, id in ipairs(Lane.ids(S, name)) do
    local lane = Lane.by_id(S, id)
    if lane then
      lanes[#lanes + 1] = {lane.name}
      for _, what in ipairs(LANE_WAITING) do wanted(id .. '|' .. what, lanes[#lanes]) end
    end
  end
  return lanes
end

-- The groups, and in `reply` what is returned of them as it is stored.
local function described(S, with_lanes, reply)
  local rounds, starts, held = read_all(S, K.rounds), read_all(S, K.starts), read_all(S, K.group_held)
  local groups, lanes, fields, into = {}, {}, {}, {}
  local whole = S.m.paused ~= '' and 'the whole crawl: ' .. S.m.paused or ''
  local function wanted(field, row)
    fields[#fields + 1], into[#into + 1] = field, row
  end
  for i, name in ipairs(call('HKEYS', S.b .. K.group_policy)) do
    local policy, round = Lane.group(S, name), rounds[name] or '0'
    local row = {name, policy.start and 1 or 0, tonumber(round), policy.paused ~= '' and policy.paused or whole, held[name] or ''}
    wanted('g|' .. name .. '|open', row)
    wanted('g|' .. name .. '|l', row)
    if with_lanes then lanes[i] = lane_rows(S, name, wanted) end
    groups[i] = row
    reply[#reply + 1] = starts[name] or ''
    reply[#reply + 1] = call('ZRANGEBYSCORE', S.b .. K.round_log .. name, round, round)[1] or ''
  end
  for i, value in ipairs(#fields > 0 and read_many(S.b .. K.counts, fields) or {}) do
    local row = into[i]
    row[#row + 1] = tonumber(value) or 0
  end
  for i, rows in pairs(lanes) do groups[i][#groups[i] + 1] = rows end
  return groups
end

verb('plan_state', {'no-writes'}, function(S, h)
  local state = format('%s %d %s', S.m.epoch, S.m.chg, S.m.cfg)
  local v = call('HMGET', S.b .. K.meta, 'lt', 'ln', 'doc')
  local leader, reply = {tonumber(v[1]) or 0, v[2] or '', S.m.leader_until}, {''}
  reply[1] = pack({S.now, state, tonumber(v[3]) or 0, leader, state ~= h.known and described(S, h.lanes, reply) or nil})
  return reply
end)
