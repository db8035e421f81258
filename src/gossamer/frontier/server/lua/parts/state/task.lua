-- Tasks: what outside producers push to a list, set or sorted set of theirs. The book of leases lies in the same slot as
-- the producer's key and keeps its own time.

local task_now = stored_now

local function task_source(key, want)
  local kind = call('TYPE', key)
  kind = type(kind) == 'table' and kind.ok or kind
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
  local kind = call('TYPE', key)
  kind = type(kind) == 'table' and kind.ok or kind
  local command = ({list = 'LLEN', set = 'SCARD', zset = 'ZCARD'})[kind]
  return command and call(command, key) or 0
end
