-- Tasks: what outside producers push to a list, set or sorted set of theirs. The book of leases lies in the same slot as
-- the producer's key and keeps its own time.

local task_now = stored_now

local function task_kind(key)
  local kind = call('TYPE', key)
  return type(kind) == 'table' and kind.ok or kind
end

local function task_source(key, want)
  local kind = task_kind(key)
  if kind == 'list' then return call('LPOP', key, want) or {} end
  if kind == 'set' then return call('SPOP', key, want) end
  if kind == 'zset' then
    local out, popped = {}, call('ZPOPMAX', key, want)
    for i = 1, #popped, 2 do out[#out + 1] = popped[i] end
    return out
  end
  if kind == 'none' then return {} end
  return nil, fail('TASKTYPE', 'key ' .. key .. ' is a ' .. kind .. ', not a list, set or sorted set')
end

local function task_size(key)
  local command = ({list = 'LLEN', set = 'SCARD', zset = 'ZCARD'})[task_kind(key)]
  return command and call(command, key) or 0
end

-- How fast tasks are settled, while there are any: the last two windows, in the book.
local Pace = {}
local PACE_WINDOW = 300000 -- ms, at least

-- Whether none was settled for so long that the windows, which began at `w0` and `w1`, tell of no present pace.
local function pace_over(w0, w1, now)
  return now - w1 > 2 * max(PACE_WINDOW, w1 - w0)
end

-- A worker takes tasks.
function Pace.begin(book, now)
  local v = call('HMGET', book, 'w0', 'w1')
  if not v[2] or pace_over(tonumber(v[1]), tonumber(v[2]), now) then
    call('HSET', book, 'w0', now, 'n0', 0, 'w1', now, 'n1', 0)
  end
end

-- `left`: tasks that wait or are leased. Without any, the next ones begin a new window.
function Pace.settled(book, now, n, left)
  if left == 0 then
    call('HDEL', book, 'w0', 'n0', 'w1', 'n1')
    return
  end
  local v = call('HMGET', book, 'w1', 'n1')
  if not v[1] then
    call('HSET', book, 'w0', now, 'n0', 0, 'w1', now, 'n1', n)
  elseif now - tonumber(v[1]) > PACE_WINDOW then
    call('HSET', book, 'w0', v[1], 'n0', v[2] + n, 'w1', now, 'n1', 0)
  else
    call('HSET', book, 'n1', v[2] + n)
  end
end

-- How many were settled, and in how many ms.
function Pace.of(book, now)
  local v = call('HMGET', book, 'w0', 'n0', 'w1', 'n1')
  local w0, w1 = tonumber(v[1]), tonumber(v[3])
  now = now or task_now(book)
  if not w0 or pace_over(w0, w1, now) then return 0, 0 end
  return v[2] + v[4], now - w0
end

-- Tasks that are pushed once. Each has a key, and is known by it while it waits, and then while it is leased; if its producer asks for
-- that, until a time, or until it is forgotten. A state is w (waits) or r (a worker has taken it), then the time, '' for none. Beside the book:
--   :w  hash: digest of the data of a task that waits or is leased -> its key
--   :u  hash: key -> state
--   :h  hash: key -> state, of those that are known until they are forgotten
--   :x  sorted set: key of a task that was settled -> until when it is known
local Unique = {}
local FORGOTTEN = '*'

local function unique_digest(data)
  return sub(redis.sha1hex(data), 1, 24)
end

-- What is left of tasks that a consumer without leases took, or that were deleted.
function Unique.clean(book, size, leased, now, n)
  if size == 0 and leased == 0 then call('UNLINK', book .. ':w', book .. ':u') end
  local old = call('ZRANGEBYSCORE', book .. ':x', '-inf', now, 'LIMIT', 0, 2 * n + 200)
  if #old > 0 then call_chunked('ZREM', book .. ':x', old) end
end

-- The state letter of a key, nil if a task with this key may be pushed.
function Unique.state(book, key, size, leased, now)
  local held = call('HGET', book .. ':h', key)
  local state = sub(held or call('HGET', book .. ':u', key) or '', 1, 1)
  if state == 'w' and size > 0 then return 'w' end
  if state == 'r' and (held or leased > 0) then return 'r' end
  if tonumber(call('ZSCORE', book .. ':x', key) or 0) > now then return 'r' end
end

function Unique.pushed(book, key, data, hold, now)
  call('HSET', book .. ':w', unique_digest(data), key)
  if hold == FORGOTTEN then
    call('HSET', book .. ':h', key, 'w')
  else
    call('HSET', book .. ':u', key, 'w' .. (hold > 0 and format('%d', now + hold) or ''))
  end
end

-- A worker has taken these.
function Unique.taken(book, tasks)
  if #tasks == 0 or call('EXISTS', book .. ':w') == 0 then return end
  for _, data in ipairs(tasks) do
    local key = call('HGET', book .. ':w', unique_digest(data))
    for _, place in ipairs(key and {':u', ':h'} or {}) do
      local state = call('HGET', book .. place, key)
      if state then call('HSET', book .. place, key, 'r' .. sub(state, 2)) end
    end
  end
end

function Unique.settled(book, data, now)
  local digest = unique_digest(data)
  local key = call('HGET', book .. ':w', digest)
  if not key then return end
  call('HDEL', book .. ':w', digest)
  local till = tonumber(sub(call('HGET', book .. ':u', key) or '', 2)) or 0
  call('HDEL', book .. ':u', key)
  if till > now then call('ZADD', book .. ':x', till, key) end
end
