-- Items of a group: a stream. Each entry has the data (d) and how many bytes were appended up to and with it (n), so that the
-- bytes that are there are known from the first entry, however many were trimmed before it. Counts: `g|<group>|ib`, all bytes
-- ever appended, and `g|<group>|it`, those before the first entry.
--
-- Items stay until they are dropped, or until they have been written and the stream is at its limit or they are old. `consumers` is a
-- hash per group: name -> up to where it has written the items. `*written` is how far plain exports, and consumers that have ended,
-- have come; `*gone` is `<number> <position>` of the items that went at a limit or for their age, and of the last of them.

local Items = {}
local DROP_SLICE = 1000 -- entries that a user drops, per call
local TRIM_AT_ONCE = 100 -- written entries that go at once
local TRIM_TIMES = 10   -- of one call that appends
local BOOK_WRITTEN = '*written'
local BOOK_GONE = '*gone'
local FEED_PREFIX = 'feed-'

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

local function halves(position)
  local time, number = string.match(position, '^(%d+)-(%d+)$')
  return tonumber(time), tonumber(number)
end

local function older(a, b)
  local at, an = halves(a)
  local bt, bn = halves(b)
  return at < bt or (at == bt and an < bn)
end

Items.older = older

-- Appends args[first..first + n - 1]; `position`: where the first one stands, if nothing is there or behind it yet.
function Items.append(S, group, args, first, n, position)
  local key, known = S.b .. K.items .. group, item_bytes(S, group)
  local before = known[1]
  if (position or '') ~= '' then
    local last = call('XREVRANGE', key, '+', '-', 'COUNT', 1)[1]
    if not last or older(last[1], position) then
      known[1] = known[1] + #args[first]
      call('XADD', key, position, 'd', args[first], 'n', format('%d', known[1]))
      first, n = first + 1, n - 1
    end
  end
  for i = first, first + n - 1 do
    known[1] = known[1] + #args[i]
    call('XADD', key, '*', 'd', args[i], 'n', format('%d', known[1]))
  end
  count(S, 'g|' .. group .. '|ib', known[1] - before)
end

local function first_entry(S, group)
  return call('XRANGE', S.b .. K.items .. group, '-', '+', 'COUNT', 1)[1]
end

local function behind(position)
  local time, number = string.match(position, '^(%d+)-(%d+)$')
  return time .. '-' .. format('%d', tonumber(number) + 1)
end

local function trimmed(S, group)
  local known, first = item_bytes(S, group), first_entry(S, group)
  local fields = first and first[2]
  if not fields then
    known[2] = known[1]
  elseif fields[3] == 'n' then
    known[2] = tonumber(fields[4]) - #fields[2]
  end
  call('HSET', S.b .. K.counts, 'g|' .. group .. '|it', format('%d', known[2]))
  S.changed = true
end

-- Removes the oldest entries up to a position, at most so many, one by one; how many, and the last of them.
local function remove(S, group, upto, most)
  local stream = S.b .. K.items .. group
  local rows = call('XRANGE', stream, '-', upto, 'COUNT', most)
  if #rows == 0 then return 0 end
  local last = rows[#rows][1]
  call('XTRIM', stream, 'MINID', behind(last))
  trimmed(S, group)
  return #rows, last
end

-- Removes items that a user does not want, whole blocks first; how many, and whether to call again.
function Items.drop(S, group, upto)
  local n = call('XTRIM', S.b .. K.items .. group, 'MINID', '~', behind(upto), 'LIMIT', DROP_SLICE)
  if n > 0 then
    trimmed(S, group)
    return n, true
  end
  n = remove(S, group, upto, DROP_SLICE)
  return n, n == DROP_SLICE
end

-- Up to where items may go if there must be room: what all feeds have written that have not ended; without a feed, what every named
-- consumer or somebody else has written. nil: nothing.
local function free(S, group)
  local flat = call('HGETALL', S.b .. K.consumers .. group)
  local feeds, named, written
  for i = 1, #flat, 2 do
    local name, position = flat[i], flat[i + 1]
    if name == BOOK_WRITTEN then
      written = position
    elseif sub(name, 1, #FEED_PREFIX) == FEED_PREFIX then
      if not feeds or older(position, feeds) then feeds = position end
    elseif name ~= BOOK_GONE and (not named or older(position, named)) then
      named = position
    end
  end
  local upto = feeds or named
  if not feeds and written and (not named or older(named, written)) then upto = written end
  if upto and upto ~= '0-0' then return upto end
end

function Items.written(S, group, position)
  local book = S.b .. K.consumers .. group
  local old = call('HGET', book, BOOK_WRITTEN)
  if not old or older(old, position) then call('HSET', book, BOOK_WRITTEN, position) end
end

local function over(S, group, policy)
  if policy.max_items > 0 and call('XLEN', S.b .. K.items .. group) >= policy.max_items then return true end
  local most = policy.max_item_bytes or 0
  if most == 0 then return false end
  local known = item_bytes(S, group)
  return known[1] - known[2] >= most
end

local function let_go(S, group, upto, most)
  local n, last = remove(S, group, upto, most)
  if n > 0 then
    local book = S.b .. K.consumers .. group
    local before = string.match(call('HGET', book, BOOK_GONE) or '0 ', '^%d+')
    call('HSET', book, BOOK_GONE, format('%d %s', tonumber(before) + n, last))
  end
  return n
end

-- Removes written items that are too old, and at the limit the oldest ones. `n`: how many have just come.
function Items.make_room(S, group, policy, n)
  local age = policy.max_item_age or 0
  local is_over = over(S, group, policy)
  if age == 0 and not is_over then return end
  local upto = free(S, group)
  if not upto then return end
  if age > 0 then
    local old = format('%d-0', max(0, S.now - age))
    let_go(S, group, older(old, upto) and old or upto, max(TRIM_AT_ONCE, min(n, DROP_SLICE)))
    is_over = over(S, group, policy)
  end
  for _ = 1, TRIM_TIMES do
    if not is_over then return end
    -- A tenth at most, so that a small limit leaves something to read.
    local some = math.ceil(call('XLEN', S.b .. K.items .. group) / 10)
    if let_go(S, group, upto, max(min(TRIM_AT_ONCE, some), min(n, DROP_SLICE))) == 0 then return end
    is_over = over(S, group, policy)
  end
end

-- Memory is short: written items of some groups go.
function Items.relieve(S)
  for _, group in ipairs(call('HRANDFIELD', S.b .. K.group_policy, 4)) do
    local upto = free(S, group)
    if upto then let_go(S, group, upto, TRIM_AT_ONCE) end
  end
end

-- Whether items are at their limit that nobody has written.
function Items.full(S, group, policy)
  if not over(S, group, policy) then return false end
  local upto, first = free(S, group), first_entry(S, group)
  return not (upto and first) or older(upto, first[1])
end
