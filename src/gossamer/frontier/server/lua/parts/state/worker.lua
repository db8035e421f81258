-- The registry of workers: what each reports of itself, by incarnation, and when it called last.
--
-- Workers that join or report something of themselves prune it, a few entries at a time: a worker that was silent for long and
-- holds nothing is gone. A worker that ends removes itself.

local Worker = {}

local WORKER_GONE = 3600000 -- ms of silence after which a worker that holds nothing is struck
local WORKER_LOOK = 16      -- the most that a call looks at

local function strike(S, name)
  call('ZREM', S.b .. K.worker_seen, name)
  call('HDEL', S.b .. K.workers, name)
  call('HDEL', S.b .. K.worker_settled, name)
  call('SREM', S.b .. K.draining, name)
end

-- Strikes, of the `most` that are silent longest, those that hold nothing and were silent for `silent` ms. Returns how many.
function Worker.prune(S, silent, most)
  local struck = 0
  for _, name in ipairs(call('ZRANGEBYSCORE', S.b .. K.worker_seen, '-inf', S.now - silent, 'LIMIT', 0, most)) do
    if count_now(S, 'w|' .. name) == 0 then
      strike(S, name)
      struck = struck + 1
    end
  end
  return struck
end

-- A worker has called; `info` is what it reports of itself, or nil.
function Worker.called(S, name, info)
  if info or call('HEXISTS', S.b .. K.workers, name) == 0 then
    call('HSET', S.b .. K.workers, name, info or '')
    Worker.prune(S, WORKER_GONE, WORKER_LOOK)
  end
  call('ZADD', S.b .. K.worker_seen, S.now, name)
end

-- A worker has ended. What it holds runs out, and then it is struck like any other.
function Worker.leave(S, name)
  if count_now(S, 'w|' .. name) > 0 then return 0 end
  local known = call('HEXISTS', S.b .. K.workers, name)
  strike(S, name)
  return known
end
