-- Daily counts: what the lanes of a group brought on each day (UTC), for a number of days.
--
-- `daily` is a hash per group: d -> the present day, b -> what had been counted in all when it began; the number of an earlier day ->
-- what it brought. Counts map `<layer>|<what>` -> number; what is nothing is left out. A day is closed by the first lease that
-- ends or counter that comes on a later one: whatever was counted until then belongs to it.

local Daily = {}

local DAY = 86400000
local DAYS_KEPT = 400
local LANE_DAILY = {'done', 'replaced', 'retried', 'failed', 'expired'}
-- Counters of workers, `site/<what>/<layer>`.
local COUNTER_DAILY = {'read', 'lacking', 'rows'}

-- What was counted in all.
local function totals(S, group)
  local sums, names, layers = {['|items'] = count_now(S, 'g|' .. group .. '|items')}, {}, {}
  for _, id in ipairs(Lane.ids(S, group)) do
    local lane = Lane.by_id(S, id)
    if lane then
      local layer = sub(lane.name, #group + 2)
      for _, what in ipairs(LANE_DAILY) do sums[layer .. '|' .. what] = count_now(S, id .. '|' .. what) end
      for _, what in ipairs(COUNTER_DAILY) do
        names[#names + 1], layers[#layers + 1] = 'site/' .. what .. '/' .. layer, layer .. '|' .. what
      end
    end
  end
  for i, value in ipairs(#names > 0 and read_many(S.b .. K.counters .. group, names) or {}) do
    sums[layers[i]] = tonumber(value) or 0
  end
  return sums
end

-- A lane that was dropped took its counts along.
local function grown(sums, base)
  local brought = {}
  for name, n in pairs(sums) do
    local more = n - (base[name] or 0)
    if more > 0 then brought[name] = more end
  end
  return brought
end

local function base_of(key)
  local raw = call('HGET', key, 'b')
  return raw and unpack_msg(raw) or {}
end

-- Lets go of the days that are too old, `day` being the last one that was closed.
local function trim(key, day, today)
  local old = {}
  for n = max(day, today - DAYS_KEPT) - DAYS_KEPT, today - DAYS_KEPT do old[#old + 1] = format('%d', n) end
  call('HDEL', key, unpack(old))
end

-- Adds to what a day has brought.
function Daily.add(S, group, day, brought)
  local key, field = S.b .. K.daily .. group, format('%d', day)
  local raw = call('HGET', key, field)
  for name, n in pairs(raw and unpack_msg(raw) or {}) do brought[name] = n + (brought[name] or 0) end
  if next(brought) then call('HSET', key, field, pack(brought)) end
end

-- What has been counted until now belongs to no later day.
function Daily.rebase(S, group)
  call('HSET', S.b .. K.daily .. group, 'd', format('%d', floor(S.now / DAY)), 'b', pack(totals(S, group)))
end

-- A lease of the group ends, or counters come: if a day has ended since the last time, it is closed. To be called before anything is counted.
function Daily.touch(S, group)
  local touched = S.daily
  if not touched then
    touched = {}
    S.daily = touched
  elseif touched[group] then
    return
  end
  touched[group] = true
  local key, today = S.b .. K.daily .. group, floor(S.now / DAY)
  local day = tonumber(call('HGET', key, 'd'))
  if day and day >= today then return end
  local sums = totals(S, group)
  if day then
    local base = base_of(key)
    Daily.add(S, group, day, grown(sums, base))
    -- Counters of lanes that were dropped continue if the lanes come back.
    for name, n in pairs(base) do sums[name] = sums[name] or n end
  end
  call('HSET', key, 'd', format('%d', today), 'b', pack(sums))
  if day then trim(key, day, today) end
end

-- A lane is dropped, and takes its counts along: the day has what it brought. Counters of workers stay.
function Daily.leave(S, lane)
  local key = S.b .. K.daily .. lane.group
  local day = tonumber(call('HGET', key, 'd'))
  if not day then return end
  local prefix, base, mine = sub(lane.name, #lane.group + 2) .. '|', base_of(key), {}
  for name, n in pairs(totals(S, lane.group)) do
    if sub(name, 1, #prefix) == prefix then mine[name] = n end
  end
  local brought = grown(mine, base)
  for _, what in ipairs(COUNTER_DAILY) do base[prefix .. what] = mine[prefix .. what] end
  for _, what in ipairs(LANE_DAILY) do base[prefix .. what] = nil end
  Daily.add(S, lane.group, day, brought)
  call('HSET', key, 'b', pack(base))
end

-- Today, and for each day what it brought, as {day, counts}; the present one so far.
function Daily.rows(S, group)
  local key, rows = S.b .. K.daily .. group, {}
  local flat = call('HGETALL', key)
  local day
  for i = 1, #flat, 2 do
    if flat[i] == 'd' then
      day = tonumber(flat[i + 1])
    elseif flat[i] ~= 'b' then
      rows[#rows + 1] = {tonumber(flat[i]), unpack_msg(flat[i + 1])}
    end
  end
  if day then
    local brought = grown(totals(S, group), base_of(key))
    if next(brought) then rows[#rows + 1] = {day, brought} end
  end
  return floor(S.now / DAY), rows
end
