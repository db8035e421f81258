-- define: creates or changes a group and its lanes. Other lanes and queued requests stay as they are. Rejected while the
-- group is being dropped: what it creates would be dropped too, on some partitions or on all.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {salt, group, policy or false (keep), fresh (policy of a new group),
--            lanes {name -> policy}, home}; home: this partition owes the start. A lane's `made` is when it was made (0: not known).
--            A group's `born` is the salt of the call that made it, which distinguishes it from others of its name; a lane's also has its name
-- Returns msgpack {config version, changed, whether memories wait for `purge`, born, round, epoch}
-- Cost    O(lanes of the group)

local SAME = {'records_spec', 'order', 'tier', 'weight', 'max_queued', 'max_leased', 'stage'}

local function same_lane(a, b)
  for _, field in ipairs(SAME) do
    if a[field] ~= b[field] then return false end
  end
  return a.seen.spec == b.seen.spec
end

local function define_lane(S, group, name, policy, stages, left, salt)
  local full = group .. '.' .. name
  local id = call('HGET', S.b .. K.lane_names, full)
  local old = id and unpack_msg(call('HGET', S.b .. K.lane_policy, id))
  if old and same_lane(old, policy) and not old.closed then return false end
  policy.name, policy.group, policy.lifo = full, group, policy.order == 'lifo'
  policy.paused = old and (old.closed and old.replaced or not old.closed and old.paused) or ''
  policy.made = old and (old.made or 0) or policy.made or S.now
  policy.born = old and not old.closed and old.born or policy.born or salt .. '.' .. name
  if old then policy.former = old.closed and Lane.births(old) or old.former end
  -- From a caller that did not know yet that it was dropped.
  if not old and call('ZSCORE', S.b .. K.dropped, policy.born) then return false end
  if old then
    old.id = id
    stages[old.stage] = true
    if old.seen.spec ~= policy.seen.spec then left[#left + 1] = old.seen end
    Lane.deactivate(S, old)
  else
    id = format('%d', call('HINCRBY', S.b .. K.meta, 'lane', 1))
    call('HSET', S.b .. K.lane_names, full, id)
    call('SADD', S.b .. K.group_lanes .. group, id)
  end
  call('HSET', S.b .. K.lane_policy, id, pack(policy))
  Pages.keep(S, id, policy.records, old and old.records)
  return id
end

local function same_group(a, b)
  for field, value in pairs(b) do
    if field ~= 'paused' and a[field] ~= value then return false end
  end
  return true
end

verb('define', {'allow-oom'}, function(S, h)
  local changed, lanes, stages, left = false, {}, {}, {}
  local raw = call('HGET', S.b .. K.group_policy, h.group)
  local old = raw and unpack_msg(raw)
  if old and old.paused == 'dropped' then return fail('DROPPING', h.group) end
  if not old and not h.policy then h.policy = h.fresh end
  local born = old and old.born or h.policy and (h.policy.born or h.salt) or ''
  -- From a caller that did not know yet that it was dropped.
  if not old and call('ZSCORE', S.b .. K.dropped, born) then return fail('NOGROUP', h.group) end
  if h.policy then
    h.policy.born = born
    -- From a caller of a version that does not know of it.
    if h.policy.gone == nil then h.policy.gone = old and old.gone end
    if not old or not same_group(old, h.policy) then
      h.policy.paused = old and old.paused or ''
      call('HSET', S.b .. K.group_policy, h.group, pack(h.policy))
      changed = true
    end
    if h.home and h.policy.start then
      call('HSETNX', S.b .. K.rounds, h.group, 0)
      local round = tonumber(call('HGET', S.b .. K.rounds, h.group))
      if call('HSETNX', S.b .. K.starts, h.group, pack({round, 'owed', '', 0})) == 1 then open_change(S, h.group, 1) end
    end
    if h.home and not h.policy.start then
      -- A start that is no longer wanted keeps no worker waiting.
      local owed = call('HGET', S.b .. K.starts, h.group)
      if owed then
        if unpack_msg(owed)[2] ~= 'done' then open_change(S, h.group, -1) end
        call('HDEL', S.b .. K.starts, h.group)
      end
    end
  end
  for name, policy in pairs(h.lanes) do
    local id = define_lane(S, h.group, name, policy, stages, left, h.salt)
    if id then
      changed = true
      lanes[#lanes + 1] = id
    end
  end
  if changed then
    bump_config(S, h.salt)
    for _, id in ipairs(lanes) do Lane.activate(S, Lane.by_id(S, id)) end
    for _, seen in ipairs(left) do Seen.leave(S, h.group, seen) end
    -- A raised limit lets go of what the old one held; a lowered one holds at once.
    local held, reason = call('HGET', S.b .. K.group_held, h.group), Lane.full(S, h.group)
    if held then
      Lane.unhold(S, h.group, held)
    elseif reason then
      Lane.hold(S, h.group, reason)
    end
    Lane.note_shut(S, h.group, stages)
  end
  finish(S)
  return pack({S.m.cfg, changed and 1 or 0, call('EXISTS', S.b .. K.purge), born, Round.present(S, h.group), S.m.epoch})
end)
