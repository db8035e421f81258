-- plan_state: what planners decide by, of all groups: their rounds and what waits; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {known (the state that the caller has; '': none)}
-- Returns msgpack {now ms, state, documents version, leader {term, name, until ms}, groups [[name, has a start, round, state of the
--            start, paused, held, open, row of the round or {}, lanes [[name, queued, delayed, leased]]]]}; without groups if the
--            state is the known one
-- Cost    O(groups + lanes), or O(1) if nothing has changed

local LANE_WAITING = {'q', 'd', 'l'}

local function described(S)
  local rounds, starts, held = {}, {}, {}
  for key, into in pairs({[K.rounds] = rounds, [K.starts] = starts, [K.group_held] = held}) do
    local flat = call('HGETALL', S.b .. key)
    for i = 1, #flat, 2 do into[flat[i]] = flat[i + 1] end
  end
  local groups, fields, into = {}, {}, {}
  local function wanted(field, row)
    fields[#fields + 1], into[#into + 1] = field, row
  end
  for _, name in ipairs(call('HKEYS', S.b .. K.group_policy)) do
    local policy, lanes = Lane.group(S, name), {}
    local round = tonumber(rounds[name]) or 0
    local start = starts[name] and unpack_msg(starts[name])[RIGHT.state] or 'none'
    local row = {name, policy.start and 1 or 0, round, start, policy.paused, held[name] or ''}
    wanted('g|' .. name .. '|open', row)
    for _, id in ipairs(Lane.ids(S, name)) do
      local lane = Lane.by_id(S, id)
      if lane then
        lanes[#lanes + 1] = {lane.name}
        for _, what in ipairs(LANE_WAITING) do wanted(id .. '|' .. what, lanes[#lanes]) end
      end
    end
    groups[#groups + 1] = {row, Round.row(S, name, round) or {}, lanes}
  end
  for i, value in ipairs(#fields > 0 and read_many(S.b .. K.counts, fields) or {}) do
    into[i][#into[i] + 1] = tonumber(value) or 0
  end
  local told = {}
  for i, group in ipairs(groups) do
    local row = group[1]
    row[#row + 1], row[#row + 2] = group[2], group[3]
    told[i] = row
  end
  return told
end

verb('plan_state', {'no-writes'}, function(S, h)
  local state = format('%s %d %s', S.m.epoch, S.m.chg, S.m.cfg)
  local v = call('HMGET', S.b .. K.meta, 'lt', 'ln', 'doc')
  local leader = {tonumber(v[1]) or 0, v[2] or '', S.m.leader_until}
  return pack({S.now, state, tonumber(v[3]) or 0, leader, state ~= h.known and described(S) or nil})
end)
