-- Pools: workers that lately asked for more than they got. The slots of a host are few, and a worker that ends a page takes the slot
-- again in the same call: others would never find one free.
--
-- `hungry` is a sorted set of incarnations by the time of their last call: per stage (`s|stage`) for workers that serve whole stages, per
-- group (`g|group`, with a stage `g|group|stage`) and lane (`l|lane`) for those that name some. Those that name many stand in the sets of
-- the stages, and in one of their own kind (`m|digest`). The first of a worker's pools are those who could do its work.

local Pool = {}

local HUNGRY = 2000 -- ms for which a worker that asked in vain counts as waiting
local HUNGRY_LOOK = 4

-- Whether a selection (exchange.lua) has this lane.
local function serves(selection, lane)
  if not selection.groups then return lane.stage == selection.stage end
  local chosen = selection.groups[lane.group]
  if not chosen or chosen ~= true and not chosen[lane.name] then return false end
  return not selection.stage or lane.stage == selection.stage
end

-- Whether somebody asks for work of this lane: the worker that calls, or one that waits.
function Pool.asked(S, lane)
  if S.selection and serves(S.selection, lane) then return true end
  S.pools = S.pools or {}
  for _, pool in ipairs({'s|' .. lane.stage, 'g|' .. lane.group, 'g|' .. lane.group .. '|' .. lane.stage, 'l|' .. lane.name}) do
    if S.pools[pool] == nil then
      local last = call('ZRANGE', S.b .. K.hungry .. pool, -1, -1, 'WITHSCORES')[2]
      S.pools[pool] = last and tonumber(last) > S.now - HUNGRY or false
    end
    if S.pools[pool] then return true end
  end
  return false
end

-- How many slots this worker leaves to others that wait and hold less.
function Pool.reserve(S, selection, incarnation)
  local names = call('ZREVRANGEBYSCORE', S.b .. K.hungry .. selection.pools[1], '+inf', S.now - HUNGRY, 'LIMIT', 0, HUNGRY_LOOK)
  S.nobody_waits = #names == 0
  if #names == 0 or #names == 1 and names[1] == incarnation then return 0 end
  -- What it gave back in this call was its share until now.
  local mine, least = count_now(S, 'w|' .. incarnation) + S.given_back, huge
  for _, name in ipairs(names) do
    if name ~= incarnation then least = min(least, count_now(S, 'w|' .. name)) end
  end
  return max(0, floor((mine - least) / 2))
end

-- The worker wanted `want` and got `got`.
function Pool.served(S, selection, incarnation, got, want)
  for i, pool in ipairs(selection.pools) do
    local key = S.b .. K.hungry .. pool
    if got < want then
      if call('ZADD', key, S.now, incarnation) == 1 then call('ZREMRANGEBYSCORE', key, '-inf', S.now - HUNGRY) end
      call('PEXPIRE', key, 2 * HUNGRY)
    elseif i > 1 or not S.nobody_waits then
      call('ZREM', key, incarnation)
    end
  end
end
