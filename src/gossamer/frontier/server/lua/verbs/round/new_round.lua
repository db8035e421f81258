-- new_round: begins the next round of a group: its start is owed again (if the group has one), memories of scope `round` begin
-- empty, and counting starts again. Called twice for the same round, it answers as the first time.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {salt, group, round (the number to begin), term (of the planner that leads; 0: no planner asks), epoch (of this
--            partition, as the caller knows it), home, and for the home partition: trigger, who, again (the round before was not over: seeds are added again while what it found is
--            still fetched), others (counts of the round before on the other partitions); before all that, on the home partition,
--            `jar`: the cookies that workers share are forgotten, and nothing else happens, and `after` (ms: when the round before
--            began, as the caller knows it; nil: whenever that was); on the others, `session`: the version that this has given them}
-- Returns msgpack {the round in force, counts of the round before on this partition {pages, items, failed, dead}}; with `jar`
--            {version of the cookies, which workers hear of, or 0: there are none, or -1: the round before is not the one that the
--            caller knows, so that none begins, the round in force}; nil if the partition is in another epoch, and nothing happens
-- Cost    O(memories of the group); emptied memories are unlinked by `purge`

-- What the round before brought is noted: also if it was never ended, and what came after its end.
local function log_turn(S, h, round, counts)
  local row = Round.row(S, h.group, round)
  if row then
    for i = 1, 4 do counts[i] = counts[i] + h.others[i] end
    local noted = Round.counted(counts)
    if row.closed then
      -- Somebody may have noted more than is counted here.
      for name, n in pairs(noted) do noted[name] = max(n, row[name] or 0) end
    end
    if h.again then noted.again = true end
    Round.note(S, h.group, round, noted)
  end
  Round.note(S, h.group, h.round, {began = S.now, trigger = h.trigger, who = h.who})
end

-- What the caller knows is lost: the server went back to an older state, and rounds that were lost may have begun again.
local function is_outdated(S, h, round)
  if not h.after or h.round <= round then return false end
  local row = Round.row(S, h.group, round)
  return h.round ~= round + 1 or not row or row.began ~= h.after
end

-- A new run of a spider has none either. Workers that had some hear of a version before which there is nothing.
local function empty_jar(S, group)
  local before = tonumber(call('HGET', S.b .. K.sessions, group))
  if not before then return 0 end
  local version = max(S.now, before + 1)
  call('UNLINK', S.b .. K.jar .. group, S.b .. K.cookies .. group)
  call('HSET', S.b .. K.sessions, group, format('%d', version))
  call('HSET', S.b .. K.jars_began, group, format('%d', version))
  finish(S)
  return version
end

verb('new_round', {'allow-oom'}, function(S, h)
  local refused = Leader.refusal(S, h.term)
  if refused then return refused end
  local group = Lane.group(S, h.group)
  if not group then return fail('NOGROUP', h.group) end
  if h.epoch ~= S.m.epoch then
    -- It may have lost the rounds that the caller knows of. From now on this epoch is known.
    finish(S)
    return pack(nil)
  end
  local round = Round.present(S, h.group)
  if h.jar then
    if is_outdated(S, h, round) then return pack({-1, round}) end
    return pack({h.round > round and empty_jar(S, h.group) or 0, round})
  end
  local counts = h.round > round and Round.turn(S, h.group, h.round) or Round.before(S, h.group)
  if h.round > round then
    call('HSET', S.b .. K.rounds, h.group, h.round)
    for _, name in ipairs(call('HKEYS', S.b .. K.seen_names)) do
      local of_round = string.match(name, '|([^|]*@round)|%d+$')
      if of_round and sub(name, 1, #h.group + 1) == h.group .. '|' and not string.match(name, '|' .. h.round .. '$') then
        local number = call('HGET', S.b .. K.seen_names, name)
        call('HDEL', S.b .. K.seen_names, name)
        call('RPUSH', S.b .. K.purge, number)
      end
    end
    if h.home and group.start then
      local raw = call('HGET', S.b .. K.starts, h.group)
      local v = raw and unpack_msg(raw)
      if not v or v[2] == 'done' then open_change(S, h.group, 1) end
      call('HSET', S.b .. K.starts, h.group, pack({h.round, 'owed', '', 0}))
    end
    if h.home then log_turn(S, h, round, counts) end
    Coverage.trim(S, h.group, h.round)
    Round.open_lanes(S, h.group, h.salt)
    Lane.unhold(S, h.group, 'pages_full')
    if (h.session or 0) > 0 then
      local before = tonumber(call('HGET', S.b .. K.sessions, h.group)) or 0
      call('HSET', S.b .. K.sessions, h.group, format('%d', max(before, h.session)))
    end
    round = h.round
    S.changed = true
    -- Workers hear of it: what they know to be known may be wanted again.
    bump_config(S, h.salt)
    finish(S)
  end
  return pack({round, counts})
end)
