-- Coverage: how many values the fields of a group's layers had, for each of its last rounds.
--
-- `coverage` is a hash per group: <round>|<layer or field>|<what> -> number. Workers send these numbers as counters whose names begin with
-- coverage/. A round that is too long ago is let go, and so is a field of a group that has too many.

local Coverage = {}

local COVERAGE_ROUNDS = 10
local COVERAGE_FIELDS = 20000

-- Where a counter of a group is kept: the key and the name there; nothing if it is not kept.
function Coverage.place(S, group, name)
  local round = string.match(name, '^coverage/(%d+)|')
  if not round then return S.b .. K.counters .. group, name end
  local key, field = S.b .. K.coverage .. group, sub(name, 10)
  local present = tonumber(call('HGET', S.b .. K.rounds, group)) or 0
  if tonumber(round) <= present - COVERAGE_ROUNDS then return nil end
  if call('HLEN', key) >= COVERAGE_FIELDS and call('HEXISTS', key, field) == 0 then return nil end
  return key, field
end

-- Round `number` begins.
function Coverage.trim(S, group, number)
  local key = S.b .. K.coverage .. group
  for _, field in ipairs(call('HKEYS', key)) do
    local round = tonumber(string.match(field, '^(%d+)|'))
    if not round or round <= number - COVERAGE_ROUNDS then call('HDEL', key, field) end
  end
end
