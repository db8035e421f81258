-- exchange: a worker's one hot call. Ends leases with everything their pages produced, frees the host slots of
-- what was fetched, adds requests, applies counters, and leases up to `want` requests: all of it or nothing.
--
-- KEYS    1: the partition's base key; every other key shares its hash tag
-- ARGV    1: msgpack {incarnation, sequence, nonce, lease_ms, strikes, send_ms (how long a lease may wait until it is
--            sent), want, groups[], lanes[], stage or nil, named (digest of these three where they are many; they may then be left
--            out) or nil, settle[], fetched[], sent[], add groups[], counters[], info, child groups[], group, peek, busy
--            (holds leases of other partitions), lists[] that pages push to, or nil, on {epoch, change counter} of the state by which
--            children were left out, or nil, out (what pages owe elsewhere, see Outbox.put) or nil, delivered[] (deliveries
--            here that are no longer owed) or nil, session (the group whose cookies are shared) or nil, knows_texts (the worker knows of texts of pages and of rows that are gone) or nil, statuses[] of the settled pages (one, how many have it, and so on) or nil}; 2: the records of the child groups; 3: the records of
--            the add groups; 4: signatures of all settled pages, 8 bytes each, or ''; 5 and on: of each page its items, then its data for
--            lists; last the parcels of `out`
-- Returns {msgpack {settled letters, child outcomes[], add outcomes[], lease heads (flat, 6 each), ready_in ms or -1, open, paused,
--            config version, now, room or -1, nonce, tasting (1: kept
--            empty for a request that is to be tried alone), epoch, change counter, owes (1: `out` is owed), ids of entries of
--            the outbox to be delivered for others[], version of the cookies of `session` if asked for}, first record of each lease...};
--            where `on` does not hold, or what `named` stands for is not known, {msgpack {false, epoch, change counter}}, and nothing was
--            changed
-- Cost    O((settle + add + leases) log leases); hosts looked at are bounded; idempotent by (incarnation, sequence)

local POOLS_MAX = 16 -- groups and lanes for which a worker is noted one by one
local SELECTIONS_MAX = 64 -- that are kept

-- What a worker serves; resolved once per policy stamp. `stage` nil: all stages of the groups that are named. Nil: it is not known what
-- `named` stands for.
local function read_selection(S, h)
  local known = S.config.selections
  if not known then
    known = {}
    S.config.selections, S.config.selections_count = known, 0
  end
  if h.named and not h.groups then return known[h.named] end
  if #h.groups == 0 and #h.lanes == 0 then
    local stage = h.stage or ''
    return {stage = stage, groups = false, pools = {'s|' .. stage}}
  end
  local signature = h.named or table.concat(h.groups, '\0') .. '\1' .. table.concat(h.lanes, '\0') .. '\1' .. (h.stage or '\2')
  local selection = known[signature]
  if selection then return selection end
  selection = {groups = {}, names = {}, stages = {}, pools = {}, stage = h.stage}
  local stages = {}
  local function choose(group, lane)
    if lane and (not h.stage or lane.stage == h.stage) and not stages[lane.stage] then
      stages[lane.stage] = true
      selection.stages[#selection.stages + 1] = lane.stage
    end
    if selection.groups[group] == nil then selection.names[#selection.names + 1] = group end
  end
  for _, group in ipairs(h.groups) do
    choose(group)
    selection.groups[group] = true
    for _, id in ipairs(Lane.ids(S, group)) do choose(group, Lane.by_id(S, id)) end
  end
  for _, name in ipairs(h.lanes) do
    local group = string.match(name, '^(.*)%.[^.]*$') or name
    choose(group, Lane.by_name(S, name))
    if selection.groups[group] ~= true then
      selection.groups[group] = selection.groups[group] or {}
      selection.groups[group][name] = true
    end
  end
  local pools = selection.pools
  if #h.groups + #h.lanes > POOLS_MAX then
    pools[1] = 'm|' .. redis.sha1hex(signature)
    for _, stage in ipairs(selection.stages) do pools[#pools + 1] = 's|' .. stage end
  else
    for _, group in ipairs(h.groups) do pools[#pools + 1] = 'g|' .. group .. (h.stage and '|' .. h.stage or '') end
    for _, name in ipairs(h.lanes) do pools[#pools + 1] = 'l|' .. name end
  end
  S.config.selections_count = S.config.selections_count + 1
  if S.config.selections_count > SELECTIONS_MAX then
    for other in pairs(known) do
      if S.config.sums then S.config.sums[known[other]] = nil end
      known[other] = nil
    end
    S.config.selections_count = 1
  end
  known[signature] = selection
  return selection
end

local function open_of(S, selection)
  local open = 0
  if selection.groups then
    open = stored_open(S, selection)
    for field, by in pairs(S.counts) do
      if sub(field, -5) == '|open' and selection.groups[sub(field, 3, -6)] then open = open + by end
    end
  else
    -- `finish` keeps the sum over all groups.
    open = tonumber(call('HGET', S.b .. K.counts, 'open')) or 0
    for field, by in pairs(S.counts) do
      if sub(field, -5) == '|open' then open = open + by end
    end
  end
  return open
end

-- Whether a group that a worker serves has tables that say which rows are gone.
local function has_gone(S, selection)
  if selection.groups then
    for _, group in ipairs(selection.names) do
      local policy = Lane.group(S, group)
      if policy and policy.gone then return true end
    end
    return false
  end
  if S.config.gone == nil then
    S.config.gone = false
    for _, group in ipairs(call('HKEYS', S.b .. K.group_policy)) do
      if Lane.group(S, group).gone then S.config.gone = true end
    end
  end
  return S.config.gone
end

-- Whether pages that a worker serves have texts of their lists.
local function has_texts(S, selection)
  if S.m.tx == 0 or not selection.groups then return S.m.tx > 0 end
  for _, group in ipairs(selection.names) do
    for _, id in ipairs(Lane.ids(S, group)) do
      local lane = Lane.by_id(S, id)
      local book = lane and Seen.holder(S, lane)
      if book and Changed.kept(book) then return true end
    end
  end
  return false
end

local function session_of(S, h)
  return h.session and (tonumber(call('HGET', S.b .. K.sessions, h.session)) or 0) or nil
end

-- The answer to a repeated call: outcomes as kept, leases as far as they are still held.
local function repeat_answer(S, kept, incarnation, out, h)
  local heads, reply = {}, {''}
  if #kept[ANSWER.ids] > 0 then
    local raws = read_many(S.b .. K.leases, kept[ANSWER.ids])
    for i, id in ipairs(kept[ANSWER.ids]) do
      local v = raws[i] and lease_table(raws[i])
      local lane = v and Lane.by_id(S, v[LEASE.lane_id])
      if lane and v[LEASE.incarnation] == incarnation and v[LEASE.nonce] == kept[ANSWER.nonce] then
        local flags = v[LEASE.alone] + (sub(kept[ANSWER.paced], i, i) == 'p' and 2 or 0)
        for _, value in ipairs({tonumber(id), lane.name, v[LEASE.host], v[LEASE.priority], v[LEASE.attempts], flags}) do
          heads[#heads + 1] = value
        end
        reply[#reply + 1] = Changed.plain(v[LEASE.record])
      end
    end
  end
  reply[1] = pack({
    kept[ANSWER.settled], kept[ANSWER.children], kept[ANSWER.added], heads, kept[ANSWER.ready_in], kept[ANSWER.open],
    kept[ANSWER.paused], S.m.cfg, kept[ANSWER.now], kept[ANSWER.room], kept[ANSWER.nonce], 0,
    S.m.epoch, S.m.chg, out and call('HEXISTS', Outbox.key(S, out.id), 'n') or 0, {}, session_of(S, h),
  })
  return reply
end

verb('exchange', {'allow-oom'}, function(S, h, args)
  local incarnation, sequence = h.i, h.s
  local kept, misuse = kept_answer(S, incarnation, sequence)
  if misuse then return misuse end
  if kept then return repeat_answer(S, kept, incarnation, h.out, h) end
  local selection = read_selection(S, h)
  if not selection or h.on and not still_holds(S, h.on) then return {pack({false, S.m.epoch, S.m.chg})} end
  local refused = h.lists and Lists.problem(h.lists) or h.out and Outbox.problem(S, h.out, h.settle)
  if refused then return refused end

  S.looked, S.wake_lanes, S.fewer_leased, S.incarnation, S.given_back = 0, {}, {}, incarnation, 0
  S.nonce, S.send_ms, S.sequence, S.pages_left, S.reserve, S.kept = h.n, h.send or 5000, sequence, {}, 0, {}
  if h.want > 0 then S.selection = selection end
  -- When it was sent counts more than that it was answered.
  Lease.sent(S, h.sent)
  -- Settled before reclaimed: a lease that ran out but was not given away yet is still this worker's.
  local settled, lost = Lease.settle(S, incarnation, h.settle, args, h.group, {statuses = h.statuses or {}, signatures = args[4] ~= '' and args[4] or nil})
  local owes = h.out and Outbox.put(S, h.out, h.settle, args, lost, h.group, h.lease) and 1 or 0
  Lease.fetched(S, incarnation, h.fetched)
  Lease.reclaim(S, h.strikes)
  Queue.due(S)
  local child_outcomes = Enqueue.add(S, h.children, args[2], false, lost, h.group)
  local add_outcomes, room = Enqueue.add(S, h.add, args[3], true, {})
  Enqueue.counters(S, h.counters)
  if S.m.due > 0 and h.want > 0 then Due.feed_due(S) end
  Host.wake_due(S)
  for _, lane in pairs(S.wake_lanes) do Lane.activate(S, lane) end
  Lane.unhold_pages(S)

  if S.given_back > 0 then count(S, 'w|' .. incarnation, -S.given_back) end
  local info = {incarnation = incarnation, nonce = h.n, lease_ms = h.lease, busy = h.busy}
  Worker.called(S, incarnation, h.info)

  local taken, paused, alone, tasting = new_taken(), S.m.paused, nil, 0
  if call('SISMEMBER', S.b .. K.draining, incarnation) == 1 then paused = 'draining' end
  -- A worker of a version that knows no texts would lead to no page turns, and the text would stand for all of them. Such a worker does not note
  -- which rows its pages bring, either, and they would be gone when the round is over.
  if not h.knows_texts and (has_texts(S, selection) or has_gone(S, selection)) then paused = 'draining' end
  local want = h.want
  if want > 0 and paused == '' then
    if memory_full(S) then
      Items.relieve(S)
      want = want_while_full(S, want)
    end
    if want == 0 then
      paused = 'memory'
    elseif Lease.taste(S, info, selection, taken) then
      alone = taken.n == 1 and 1 or nil
      tasting = alone and 0 or 1
    else
      S.reserve = Pool.reserve(S, selection, incarnation)
      taken = Lease.take(S, selection, want)
      Pool.served(S, selection, incarnation, taken.n, want)
    end
  end
  local heads, records, ids = Lease.grant(S, info, taken, alone)
  Lane.unhold_pages(S)
  local ready_in, page_at = -1, S.m.due > 0 and Due.ready_at(S)
  if page_at then look_again(S, page_at) end
  if #ids < h.want then
    ready_in = Lease.ready_in(S) or -1
    -- What was not asked for because memory is short may be asked for soon.
    if #ids == want and want < h.want then ready_in = ready_in < 0 and DRAIN_LOOK or min(ready_in, DRAIN_LOOK) end
  elseif h.peek then
    ready_in = paused == '' and Lease.more(S, info, selection) and 0 or Lease.ready_in(S) or -1
  end
  if #ids > 0 then
    paused = ''
  elseif paused == '' and h.want > 0 then
    paused = Lease.shut(S, selection)
  end
  local open = open_of(S, selection)
  local due = Outbox.due(S, h.lease)
  for _, name in ipairs(h.delivered or {}) do call('PEXPIRE', S.b .. K.answers .. name, ONCE_TTL) end
  Seen.save(S)
  finish(S)
  local paced = {}
  for i = 1, S.paced and #ids or 0 do paced[i] = heads[6 * i] >= 2 and 'p' or '-' end
  keep_answer(S, incarnation, {
    sequence, settled, child_outcomes, add_outcomes, ids, h.n, open, paused, room or -1, ready_in, S.now, table.concat(paced),
  })
  table.insert(records, 1, pack({settled, child_outcomes, add_outcomes, heads, ready_in, open, paused, S.m.cfg, S.now, room or -1, h.n, tasting,
    S.m.epoch, S.m.chg, owes, due, session_of(S, h)}))
  return records
end)
