-- Taking: which of the groups with ready requests is served.
--
-- Groups take turns by stride: the lowest pass first, which moves on by 1/weight of the group. Inside a group lower tiers go strictly
-- first, and lanes of one tier by stride again. `spent` names lanes (by id) and groups (by stage|group) that gave less than they were
-- asked for in this call. `taking` has what lanes with a limit gave in this call: it is counted as leased only afterwards.

-- A chunk has no more than 200 local names: what only this file needs has a block of its own.
local pages_left, set_pages_left, tier_lanes, ready_groups

do

local DIRECT_MAX = 16 -- groups that are asked one by one; more are looked for among those that have work
local WALK_MAX = 512  -- groups walked over in search of those
local WALK_WAIT = 100 -- ms until a worker looks again that did not see all

-- How many pages the group may still have. When all that it may have are done or in workers' hands, it is held.
function set_pages_left(S, group, left)
  S.pages_left[group] = left
  if left <= 0 then Lane.hold(S, group, 'pages_full') end
  return left
end

function pages_left(S, group)
  return S.pages_left[group] or set_pages_left(S, group, Lane.pages_left(S, group, Lane.group(S, group)))
end

-- Lanes of a tier that may serve now, as many as `want`.
function tier_lanes(S, place, tier, want, only)
  local key, list, index = S.b .. K.active .. place .. '|' .. tier, {}, 0
  while #list < want do
    local page = call('ZRANGE', key, index, index + want - 1, 'WITHSCORES')
    if #page == 0 then return list end
    for i = 1, #page, 2 do
      local lane = Lane.by_id(S, page[i])
      if lane and lane.paused == '' then
        index = index + 1
        if not S.spent[lane.id] and (not only or only[lane.name]) then
          local room = lane.max_leased == 0 and huge or lane.max_leased - count_now(S, lane.f.l) - (S.taking[lane.id] or 0)
          list[#list + 1] = {lane, tonumber(page[i + 1]), weight = lane.weight, room = room}
        end
      elseif lane then
        Lane.deactivate(S, lane)
      else
        call('ZREM', key, page[i])
      end
    end
    if #page < 2 * want then return list end
  end
  list.cut = true
  return list
end

-- Moves heap[i] down to its place; the smallest pass is at the top.
local function sink(heap, i, n)
  local entry = heap[i]
  while 2 * i <= n do
    local child = 2 * i
    if child < n and heap[child + 1].pass < heap[child].pass then child = child + 1 end
    if heap[child].pass >= entry.pass then break end
    heap[i] = heap[child]
    i = child
  end
  heap[i] = entry
end

-- Gives `left` turns to lanes or groups: always to the lowest pass, which then moves on by 1/weight. Sets entry.share. Answers them
-- in the order of their first turns: where a host has a slot for one of them only, it is that one's.
local function share_out(list, left)
  if #list == 1 then
    -- Nobody to share with, which is the usual case: all turns at once.
    list[1].share = max(0, min(left, list[1].room))
    return list
  end
  local heap, turns = {}, {}
  for _, entry in ipairs(list) do
    entry.share, entry.pass = 0, entry[2]
    if entry.room > 0 then heap[#heap + 1] = entry end
  end
  local n = #heap
  for i = floor(n / 2), 1, -1 do sink(heap, i, n) end
  while left > 0 and n > 0 do
    local entry = heap[1]
    if entry.share == 0 then turns[#turns + 1] = entry end
    entry.share, entry.pass, left = entry.share + 1, entry.pass + 1 / entry.weight, left - 1
    if entry.share >= entry.room then
      heap[1] = heap[n]
      n = n - 1
    end
    if n > 0 then sink(heap, 1, n) end
  end
  for _, entry in ipairs(list) do
    if entry.share == 0 then turns[#turns + 1] = entry end
  end
  return turns
end

-- Shares of what is wanted, by stride; then each gives its share as far as it can, by `give(entry, share)`. `again()` gives further
-- entries where there are more than were looked up.
local function by_turns(S, list, want, give, again)
  local total = 0
  while total < want and S.looked < LOOK_MAX do
    if #list == 0 then
      list = again()
      if not list or #list == 0 then break end
    end
    local rest, any = {}, false
    for _, entry in ipairs(share_out(list, want - total)) do
      local got = 0
      if entry.share > 0 then
        any = true
        got = give(entry, entry.share)
        total = total + got
        entry[2] = entry[2] + got / entry.weight
        entry.room = entry.room - got
      end
      if got == entry.share and entry.room > 0 then rest[#rest + 1] = entry end
    end
    if not any then break end
    list = rest
  end
  return total
end

-- Takes up to `want` requests of one group in one stage.
local function take_group(S, stage, name, want, taken, only)
  local place, notes, total = stage .. '|' .. name, {}, 0
  for _, tier in ipairs(call('ZRANGE', S.b .. K.tiers .. place, 0, -1)) do
    local function give(entry, share)
      local lane = entry[1]
      local got = Queue.take(S, lane, share, taken)
      if got > 0 then
        local moved = entry[2] + got / lane.weight
        if lane.max_leased > 0 then S.taking[lane.id] = (S.taking[lane.id] or 0) + got end
        notes['v|' .. stage .. '|' .. tier], notes[lane.id] = entry[2], moved
        call('ZADD', S.b .. K.active .. place .. '|' .. tier, 'XX', moved, lane.id)
      end
      if got >= entry.room then Lane.deactivate(S, lane) end
      if got < share then S.spent[lane.id] = true end
      return got
    end
    local list = tier_lanes(S, place, tier, want - total, only)
    for _, entry in ipairs(list) do
      if entry.room <= 0 then Lane.deactivate(S, entry[1]) end
    end
    total = total + by_turns(S, list, want - total, give, function()
      local more = list.cut and tier_lanes(S, place, tier, want, only)
      list = more or {}
      return more
    end)
    if total >= want or S.looked >= LOOK_MAX then break end
  end
  return total, notes
end

local function place_of(stage, name)
  return stage .. '|' .. name
end

local function group_entry(S, stage, name, pass, only)
  S.passes = S.passes or {}
  S.passes[stage .. '|' .. name] = pass
  local group = Lane.group(S, name)
  return {name, pass, stage = stage, only = only, weight = group.weight or 1, room = huge}
end

-- Groups of a whole stage that may serve now, as many as `want`.
local function stage_groups(S, stage, want, list)
  local key, index = S.b .. K.turns .. stage, 0
  while #list < want do
    local page = call('ZRANGE', key, index, index + want - 1, 'WITHSCORES')
    if #page == 0 then return end
    for i = 1, #page, 2 do
      if Lane.group_closed(S, page[i]) == '' and pages_left(S, page[i]) > 0 then
        if not S.spent[place_of(stage, page[i])] then list[#list + 1] = group_entry(S, stage, page[i], tonumber(page[i + 1])) end
        index = index + 1
      else
        Lane.rest(S, stage, page[i])
      end
    end
    if #page < 2 * want then return end
  end
  list.cut = true
end

local function named_group(S, selection, stage, name, list)
  local chosen = selection.groups[name]
  if S.spent[place_of(stage, name)] or Lane.group_closed(S, name) ~= '' then return end
  local pass = call('ZSCORE', S.b .. K.turns .. stage, name)
  if pass and pages_left(S, name) > 0 then
    list[#list + 1] = group_entry(S, stage, name, tonumber(pass), chosen ~= true and chosen or nil)
  end
end

-- Of many groups that a worker names, those that have work. What is walked over is bounded, whoever else has work in the stage.
local function walk_groups(S, selection, stage, want, list)
  local key, index, walked = S.b .. K.turns .. stage, 0, 0
  while #list < want and walked < WALK_MAX do
    local page = call('ZRANGE', key, index, index + 63, 'WITHSCORES')
    for i = 1, #page, 2 do
      local chosen = not S.spent[place_of(stage, page[i])] and selection.groups[page[i]]
      if chosen and #list < want and not (Lane.group_closed(S, page[i]) == '' and pages_left(S, page[i]) > 0) then
        Lane.rest(S, stage, page[i])
      else
        index = index + 1
        if chosen and #list < want then
          list[#list + 1] = group_entry(S, stage, page[i], tonumber(page[i + 1]), chosen ~= true and chosen or nil)
        end
      end
    end
    walked = walked + 64
    if #page < 128 then return end
  end
  if #list < want then
    -- Too many others stand before them: some of its own, other ones at each call.
    for i = 1, 64 do
      local name = selection.names[(S.sequence * 64 + i) % #selection.names + 1]
      if #list < want then named_group(S, selection, stage, name, list) end
    end
    look_again(S, S.now + WALK_WAIT)
  end
end

function ready_groups(S, selection, want)
  local list = {}
  if not selection.groups then
    stage_groups(S, selection.stage, want, list)
    return list
  end
  for _, stage in ipairs(selection.stages) do
    if #selection.names <= DIRECT_MAX then
      for _, name in ipairs(selection.names) do named_group(S, selection, stage, name, list) end
    else
      walk_groups(S, selection, stage, want + #list, list)
    end
  end
  return list
end

-- Takes up to `want` requests.
function Lease.take(S, selection, want)
  local taken, virtual = new_taken(), {}
  local function give(entry, share)
    local name, stage = entry[1], entry.stage
    share = min(share, pages_left(S, name))
    if share <= 0 then return 0 end
    local got, notes = take_group(S, stage, name, share, taken, entry.only)
    if got > 0 then
      local moved = entry[2] + got / entry.weight
      virtual[stage] = max(virtual[stage] or 0, entry[2])
      notes['g|' .. stage], S.passes[stage .. '|' .. name] = moved, moved
      local flat = {}
      for field, value in pairs(notes) do
        flat[#flat + 1] = field
        flat[#flat + 1] = value
      end
      call('HSET', S.b .. K.shares .. name, unpack(flat))
      call('ZADD', S.b .. K.turns .. stage, 'XX', moved, name)
      set_pages_left(S, name, pages_left(S, name) - got)
    end
    if got < share then S.spent[place_of(stage, name)] = true end
    return got
  end
  S.spent, S.taking = {}, {}
  local list = ready_groups(S, selection, want)
  S.woken = 0
  by_turns(S, list, want, give, function()
    -- There may be more than were looked up, and those whose host was left to them meanwhile.
    if not list.cut and S.woken == 0 then return nil end
    if S.woken > 0 then S.spent, S.woken = {}, 0 end
    list = ready_groups(S, selection, want - taken.n)
    return list
  end)
  for stage, pass in pairs(virtual) do call('HSET', S.b .. K.virtual, stage, pass) end
  return taken
end

-- Why nothing may be leased, or ''. Where many groups are named, one that is shut stands for them.
function Lease.shut(S, selection)
  if not selection.groups then return Lane.shut(S, selection.stage) end
  local reason = ''
  if #selection.names > DIRECT_MAX then
    for _, stage in ipairs(selection.stages) do
      local one = call('HRANDFIELD', S.b .. K.shut .. stage, 1, 'WITHVALUES')
      if one[1] and selection.groups[one[1]] then reason = one[2] end
    end
    return reason
  end
  for _, name in ipairs(selection.names) do
    for _, id in ipairs(Lane.ids(S, name)) do
      local lane = Lane.by_id(S, id)
      if lane and serves(selection, lane) then
        local closed = Lane.closed(S, lane)
        if closed ~= '' then reason = closed end
      end
    end
  end
  return reason
end

end
