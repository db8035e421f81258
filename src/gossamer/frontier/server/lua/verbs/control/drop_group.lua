-- drop_group: removes a group, a bounded part per call. `pause` stops leasing and removes nothing; `clear` removes
-- dead letters, then memories, then the rest at once. The group's lanes are dropped before, on every partition (drop).
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {salt, group, action (pause|clear), lanes (most to name), budget (dead letters per call), births (of the group on every partition, as far
--            as they are known; older clients name none)[], only (the birth of the group that is meant here: of another one nothing goes) or nil}
-- Returns msgpack {known (1|0), done (1|0), dead letters removed, names of lanes that must be dropped first[], and where births are named born or ''}
-- Cost    O(budget log dead), at the end O(memories of the crawl); it is done when `purge` has unlinked the
--            memories; a repeat changes nothing

local function lanes_of(S, group, most)
  local names = {}
  for _, id in ipairs(call('SMEMBERS', S.b .. K.group_lanes .. group)) do
    local lane = Lane.by_id(S, id)
    if lane and #names < most then names[#names + 1] = lane.name end
  end
  return names
end

local function clear_dead(S, group, budget)
  local order = S.b .. K.dead_order .. group
  local ids = call('ZRANGE', order, 0, budget - 1)
  if #ids > 0 then
    call_chunked('HDEL', S.b .. K.dead, ids)
    call_chunked('ZREM', order, ids)
  end
  return #ids
end

local function clear_memories(S, group)
  local names = call('HGETALL', S.b .. K.seen_names)
  for i = 1, #names, 2 do
    if sub(names[i], 1, #group + 1) == group .. '|' then
      call('HDEL', S.b .. K.seen_names, names[i])
      call('RPUSH', S.b .. K.purge, names[i + 1])
    end
  end
end

-- An owed start goes together with the count that it is open, also in the crawl's sum.
local function clear_rest(S, group, salt)
  for _, book in ipairs({K.items, K.consumers, K.counters, K.group_lanes, K.round_log, K.daily, K.coverage, K.keyed, K.shares, K.jar, K.cookies, K.versions, K.version_order, K.newer}) do call('UNLINK', S.b .. book .. group) end
  call('UNLINK', S.b .. K.hungry .. 'g|' .. group)
  for _, book in ipairs({K.starts, K.ends, K.rounds, K.round_base, K.group_held, K.group_policy, K.sessions, K.jars_began}) do
    call('HDEL', S.b .. book, group)
  end
  S.dropped = group -- of which `finish` notes nothing
  open_change(S, group, -count_now(S, 'g|' .. group .. '|open'))
  for _, what in ipairs(GROUP_COUNTS) do
    if what ~= 'open' then call('HDEL', S.b .. K.counts, 'g|' .. group .. '|' .. what) end
  end
  bump_config(S, salt)
end

verb('drop_group', {'allow-oom'}, function(S, h)
  local known, done, removed = Lane.group(S, h.group), false, 0
  if h.only and known and known.born ~= h.only then return pack({0, 1, 0, {}, ''}) end
  local lanes = lanes_of(S, h.group, h.lanes)
  if h.action == 'pause' then
    if known and known.paused ~= 'dropped' then
      known.paused = 'dropped'
      call('HSET', S.b .. K.group_policy, h.group, pack(known))
      bump_config(S, h.salt)
      Lane.note_shut(S, h.group)
    end
  elseif #lanes == 0 then
    Lane.note_dropped(S, h.births or {})
    removed = clear_dead(S, h.group, h.budget)
    if call('EXISTS', S.b .. K.dead_order .. h.group) == 0 then
      clear_memories(S, h.group)
      done = call('EXISTS', S.b .. K.purge) == 0
      if done then clear_rest(S, h.group, h.salt) end
    end
    S.changed = true
  end
  finish(S)
  return pack({known and 1 or 0, done and 1 or 0, removed, lanes, h.births and (known and known.born or '') or nil})
end)
