-- counts: what the partition holds, for people and limits; read only and O(lanes + groups).
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {group or '', brief (leave out counters, and of the policies of lanes all but their stage) or nil}
-- Returns msgpack {now, change counter, config version, paused, lanes [[name, paused, policy (in lanes that keep records with `pages`:
--            found, known, ms when the first is due), counts {}]], groups [[name, policy, held, round, counts {}, items waiting, dead,
--            start state]], counters [[group, [name, value...]]], whether a planner leads (1 or 0)}
-- Cost    O(lanes + groups + counters)

local GROUP_WHAT = {'open', 'pages', 'items', 'dead', 'lost', 'refused_items', 'refused_children'}

local function numbers(S, prefix, what)
  local fields, out = {}, {}
  for i, name in ipairs(what) do fields[i] = prefix .. name end
  for i, value in ipairs(call('HMGET', S.b .. K.counts, unpack(fields))) do out[i] = tonumber(value) or 0 end
  return out
end

verb('counts', {'no-writes'}, function(S, h)
  local wanted = h.group
  local lanes, groups, counters = {}, {}, {}
  for _, name in ipairs(call('HKEYS', S.b .. K.group_policy)) do
    if wanted == '' or wanted == name then
      local policy = Lane.group(S, name)
      local held = call('HGET', S.b .. K.group_held, name) or ''
      local started = call('HGET', S.b .. K.starts, name)
      groups[#groups + 1] = {
        name, policy, policy.paused ~= '' and policy.paused or held, tonumber(call('HGET', S.b .. K.rounds, name)) or 0,
        numbers(S, 'g|' .. name .. '|', GROUP_WHAT), call('XLEN', S.b .. K.items .. name),
        call('ZCARD', S.b .. K.dead_order .. name), started and unpack_msg(started)[2] or 'none',
      }
      if not h.brief then counters[#counters + 1] = {name, call('HGETALL', S.b .. K.counters .. name)} end
      for _, id in ipairs(call('SMEMBERS', S.b .. K.group_lanes .. name)) do
        local lane = Lane.by_id(S, id)
        if lane then
          local policy = h.brief and {made = 0, stage = lane.stage} or unpack_msg(call('HGET', S.b .. K.lane_policy, id))
          if lane.records then policy.pages = Pages.numbers(S, lane) end
          lanes[#lanes + 1] = {lane.name, lane.paused, policy, numbers(S, id .. '|', LANE_COUNTS)}
        end
      end
    end
  end
  return pack({S.now, S.m.chg, S.m.cfg, S.m.paused, lanes, groups, counters, Leader.present(S) and 1 or 0})
end)
