-- Items that wait for a group's consumers: a stream per group. Each entry has the data (d) and how many bytes were appended up to
-- and with it (n), so that the bytes that wait are known from the first entry, however many were trimmed before it. Counts:
-- `g|<group>|ib`, all bytes ever appended, and `g|<group>|it`, those before the first entry.

local Items = {}

local function item_bytes(S, group)
  local all = S.item_bytes
  if not all then
    all = {}
    S.item_bytes = all
  end
  if not all[group] then
    local v = call('HMGET', S.b .. K.counts, 'g|' .. group .. '|ib', 'g|' .. group .. '|it')
    all[group] = {tonumber(v[1]) or 0, tonumber(v[2]) or 0}
  end
  return all[group]
end

-- Appends args[first..first + n - 1].
function Items.append(S, group, args, first, n)
  local key, known = S.b .. K.items .. group, item_bytes(S, group)
  local before = known[1]
  for i = first, first + n - 1 do
    known[1] = known[1] + #args[i]
    call('XADD', key, '*', 'd', args[i], 'n', format('%d', known[1]))
  end
  count(S, 'g|' .. group .. '|ib', known[1] - before)
end

-- After a trim: what is before the first entry now.
function Items.trimmed(S, group)
  local known = item_bytes(S, group)
  local first = call('XRANGE', S.b .. K.items .. group, '-', '+', 'COUNT', 1)[1]
  local fields = first and first[2]
  if not fields then
    known[2] = known[1]
  elseif fields[3] == 'n' then
    known[2] = tonumber(fields[4]) - #fields[2]
  end
  call('HSET', S.b .. K.counts, 'g|' .. group .. '|it', format('%d', known[2]))
end

function Items.full(S, group, policy)
  if policy.max_items > 0 and call('XLEN', S.b .. K.items .. group) >= policy.max_items then return true end
  local most = policy.max_item_bytes or 0
  if most == 0 then return false end
  local known = item_bytes(S, group)
  return known[1] - known[2] >= most
end
