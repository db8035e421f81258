-- The memory of fingerprints.
--
-- A fingerprint arrives as the signed decimal text of 64 bits: that is what the server keeps as an integer in an
-- intset, at 8 bytes each. A Lua number holds only 53 bits, so the text is never turned into one number; buckets are
-- chosen by its last nine digits.
--
-- exact: sets of integers that stay below the 512 entries up to which a set is an intset. They grow by linear
-- hashing: one bucket is divided whenever the mean load passes LOAD. A bucket that was not divided yet in a doubling
-- carries up to twice the mean, hence the low LOAD.
-- bloom: all bits of a fingerprint lie in one block of 512 bytes, read and written whole; blocks lie in segments of almost 128 KiB.
-- A full layer is followed by one a fifth of the whole, with an error that shrinks so that the sum stays below the
-- promised one. A fingerprint that is to be forgotten goes into a small set of exceptions.
-- rolling, hits: GENERATIONS + 1 exact memories, the oldest dropped whole. Hits moves what it meets to the newest.

local Seen = {}

local LOAD = 200
local GENERATIONS = 4
local BLOCK = 512           -- bytes of a bloom filter in which all bits of a fingerprint lie
-- Blocks in one key: with its head just below 128 KiB. Allocators round up by up to a quarter, so full segments fit a size of
-- theirs, and the last one of a layer is small enough for what is rounded up not to matter.
local SEGMENT_BLOCKS = 255
local BLOOM_GROWTH = 1 / 5

-- The last nine digits times the golden ratio: the fraction is spread evenly even for fingerprints in regular steps, and
-- its first 22 bits are exact in a double.
local function hash(fp)
  local low = tonumber(sub(fp, -9))
  local h = (low < 0 and -low or low) * 0.6180339887498949 % 1 * 4194304
  return h - h % 1
end

-- Texts of small numbers, plain and with three digits: making one costs as much as a command. Larger ones are put
-- together from two. A text for each of many thousands would be a heap through which the collector of garbage
-- walks again and again.
local texts, tails = {}, {}

local function with_number(prefix, number)
  if not texts[0] then
    for n = 0, 999 do texts[n], tails[n] = format('%d', n), format('%03d', n) end
  end
  if number < 1000 then return prefix .. texts[number] end
  local tail = number % 1000
  local head = (number - tail) / 1000
  return prefix .. (texts[head] or format('%d', head)) .. tails[tail]
end

-- One exact memory under `key`: a hash with n (fingerprints) and b (buckets); buckets at `key:<number>`.
local Exact = {}

-- Reads the state of the memory at set.key into `set`.
function Exact.open(set)
  local v = call('HMGET', set.key, 'n', 'b')
  set.n, set.b = tonumber(v[1]) or 0, tonumber(v[2]) or 1
  set.low = 1
  while set.low * 2 <= set.b do set.low = set.low * 2 end
  set.prefix = set.key .. ':'
  return set
end

local function bucket(set, fp)
  local h, low = hash(fp), set.low
  local a = h % low
  if a < set.b - low then a = h % (low * 2) end
  return with_number(set.prefix, a)
end

local function divide(set)
  local from, to = set.b - set.low, set.b
  local stay, move = {}, {}
  for _, fp in ipairs(call('SMEMBERS', set.key .. ':' .. from)) do
    if hash(fp) % (set.low * 2) == from then stay[#stay + 1] = fp else move[#move + 1] = fp end
  end
  -- Rebuilt rather than trimmed: a set that once outgrew the intset form never returns to it.
  call('DEL', set.key .. ':' .. from)
  if #stay > 0 then call_chunked('SADD', set.key .. ':' .. from, stay) end
  if #move > 0 then call_chunked('SADD', set.key .. ':' .. to, move) end
  set.b = set.b + 1
  if set.b == set.low * 2 then set.low = set.b end
end

function Exact.add(set, fp)
  -- `bucket` written out: nothing runs more often.
  local digits, low = tonumber(sub(fp, -9)), set.low
  local h = (digits < 0 and -digits or digits) * 0.6180339887498949 % 1 * 4194304
  h = h - h % 1
  local a = h % low
  if a < set.b - low then a = h % (low * 2) end
  if call('SADD', with_number(set.prefix, a), fp) == 0 then return false end
  set.n = set.n + 1
  set.changed = true
  if set.n > set.b * LOAD then divide(set) end
  return true
end

function Exact.has(set, fp)
  return call('SISMEMBER', bucket(set, fp), fp) == 1
end

function Exact.remove(set, fp)
  if call('SREM', bucket(set, fp), fp) == 0 then return false end
  set.n = set.n - 1
  set.changed = true
  return true
end

function Exact.save(set)
  if set.changed then call('HSET', set.key, 'n', set.n, 'b', set.b) end
end

-- Unlinks up to `budget` buckets from the end; true when nothing is left.
function Exact.purge(key, budget)
  local set = Exact.open({key = key})
  while set.b > 1 and budget > 0 do
    set.b = set.b - 1
    call('UNLINK', key .. ':' .. set.b)
    budget = budget - 1
  end
  if set.b > 1 then
    call('HSET', key, 'b', set.b)
    return false
  end
  call('UNLINK', key .. ':0', key)
  return true
end

-- Bytes used, from a sample of the buckets.
function Exact.bytes(set)
  local sample, sum = min(set.b, 16), 0
  for i = 0, sample - 1 do sum = sum + (call('MEMORY', 'USAGE', set.prefix .. floor(i * set.b / sample)) or 0) end
  return floor(sum / sample * set.b) + (call('MEMORY', 'USAGE', set.key) or 0)
end

local Kinds = {exact = {}, bloom = {}, rolling = {}}
Kinds.hits = Kinds.rolling

-- An exact memory is its own set.
Kinds.exact.open, Kinds.exact.add, Kinds.exact.has = Exact.open, Exact.add, Exact.has
Kinds.exact.forget, Kinds.exact.save, Kinds.exact.bytes = Exact.remove, Exact.save, Exact.bytes

function Kinds.exact.count(book)
  return book.n
end

function Kinds.exact.purge(book, budget)
  return Exact.purge(book.key, budget)
end

-- bloom: the hash at `key` has layers (count), n (all), n<i> (of layer i) and f (forgotten and pending).

local function layer_shape(book, i)
  local capacity, error = book.policy.capacity, book.policy.error
  local total = capacity
  for _ = 2, i do
    capacity = ceil(total * BLOOM_GROWTH)
    total = total + capacity
  end
  -- Keeping all bits in one block makes errors 1.2 to 1.6 times as frequent. With these parts (0.53 for the first layer, a
  -- row that sums to 0.16 for the others) all layers together stay below the promised error: simulated with forty
  -- million probes, 0.66 of it when sized beforehand, 0.90 when grown tenfold and 0.96 when grown a hundredfold.
  if i == 1 then error = error * 0.53 else error = error * 0.16 * 0.12 * 0.88 ^ (i - 2) end
  local hashes = ceil(-math.log(error) / math.log(2)) - 1
  local blocks = ceil(capacity * -math.log(error) / 0.4804530139 / (BLOCK * 8))
  return {capacity = capacity, hashes = hashes, blocks = blocks, segments = ceil(blocks / SEGMENT_BLOCKS)}
end

function Kinds.bloom.open(book)
  local v = call('HMGET', book.key, 'layers', 'n', 'f')
  book.layers, book.n, book.forgotten = tonumber(v[1]) or 1, tonumber(v[2]) or 0, tonumber(v[3]) or 0
  book.last = tonumber(call('HGET', book.key, 'n' .. book.layers)) or 0
  book.shapes = {}
  for i = 1, book.layers do book.shapes[i] = layer_shape(book, i) end
end

-- Four numbers from a fingerprint: the first chooses its block, the others its bits.
local function bloom_numbers(fp)
  local digest = redis.sha1hex(fp)
  return tonumber(sub(digest, 1, 8), 16), tonumber(sub(digest, 9, 16), 16), tonumber(sub(digest, 17, 24), 16),
    tonumber(sub(digest, 25, 30), 16)
end

-- Key, number of the segment and offset of a block in layer i.
local function bloom_block(book, i, number)
  local block = number % book.shapes[i].blocks
  local segment = (block - block % SEGMENT_BLOCKS) / SEGMENT_BLOCKS
  return with_number(book.key .. ':' .. i .. ':', segment), segment, (block % SEGMENT_BLOCKS) * BLOCK
end

-- The k-th bit of a fingerprint in its block: byte (from 1) and value. Enhanced double hashing: the cubic term keeps
-- short cycles of a + k*b apart.
local function bloom_bit(a, b, c, k)
  local place = (a + k * b + (k * k * k - k) / 6 * c) % (BLOCK * 8)
  local low = place % 8
  return (place - low) / 8 + 1, 2 ^ low
end

local function layer_has(book, i, number, a, b, c)
  local key, _, offset = bloom_block(book, i, number)
  local block = call('GETRANGE', key, offset, offset + BLOCK - 1)
  if #block < BLOCK then return false end
  for k = 0, book.shapes[i].hashes - 1 do
    local at, value = bloom_bit(a, b, c, k)
    if byte(block, at) % (value * 2) < value then return false end
  end
  return true
end

-- Sets the bits in the newest layer; false when all were set.
local function layer_set(book, number, a, b, c)
  local shape = book.shapes[book.layers]
  local key, segment, offset = bloom_block(book, book.layers, number)
  local block = call('GETRANGE', key, offset, offset + BLOCK - 1)
  if #block < BLOCK then
    -- The whole segment at once: growing a string block by block would copy it again and again.
    call('SETRANGE', key, min(SEGMENT_BLOCKS, shape.blocks - segment * SEGMENT_BLOCKS) * BLOCK - 1, '\0')
    block = string.rep('\0', BLOCK)
  end
  local changed, places = {}, {}
  for k = 0, shape.hashes - 1 do
    local at, value = bloom_bit(a, b, c, k)
    local old = changed[at] or byte(block, at)
    if old % (value * 2) < value then
      if not changed[at] then places[#places + 1] = at end
      changed[at] = old + value
    end
  end
  if #places == 0 then return false end
  table.sort(places)
  local pieces, from = {}, 1
  for _, at in ipairs(places) do
    pieces[#pieces + 1] = sub(block, from, at - 1)
    pieces[#pieces + 1] = string.char(changed[at])
    from = at + 1
  end
  pieces[#pieces + 1] = sub(block, from)
  call('SETRANGE', key, offset, table.concat(pieces))
  return true
end

function Kinds.bloom.has(book, fp)
  local number, a, b, c = bloom_numbers(fp)
  for i = book.layers, 1, -1 do
    if layer_has(book, i, number, a, b, c) then
      return not (book.forgotten > 0 and call('SISMEMBER', book.key .. ':f', fp) == 1)
    end
  end
  return false
end

function Kinds.bloom.add(book, fp)
  local pending = book.forgotten > 0 and call('SREM', book.key .. ':f', fp) == 1
  if pending then
    book.forgotten = book.forgotten - 1
    book.n, book.changed = book.n + 1, true
    return true
  end
  local number, a, b, c = bloom_numbers(fp)
  for i = book.layers - 1, 1, -1 do
    if layer_has(book, i, number, a, b, c) then return false end
  end
  if not layer_set(book, number, a, b, c) then return false end
  book.n, book.last, book.changed = book.n + 1, book.last + 1, true
  if book.last >= book.shapes[book.layers].capacity then
    call('HSET', book.key, 'n' .. book.layers, book.last)
    book.layers, book.last = book.layers + 1, 0
    book.shapes[book.layers] = layer_shape(book, book.layers)
  end
  return true
end

function Kinds.bloom.save(book)
  if book.changed then
    call('HSET', book.key, 'layers', book.layers, 'n', book.n, 'f', book.forgotten, 'n' .. book.layers, book.last)
  end
end

function Kinds.bloom.count(book)
  return book.n
end

function Kinds.bloom.bytes(book)
  local sum = (call('MEMORY', 'USAGE', book.key) or 0) + (call('MEMORY', 'USAGE', book.key .. ':f') or 0)
  for i = 1, book.layers do
    for segment = 0, book.shapes[i].segments - 1 do
      sum = sum + (call('MEMORY', 'USAGE', book.key .. ':' .. i .. ':' .. segment) or 0)
    end
  end
  return sum
end

function Kinds.bloom.forget(book, fp)
  if not Kinds.bloom.has(book, fp) then return false end
  call('SADD', book.key .. ':f', fp)
  book.forgotten, book.n, book.changed = book.forgotten + 1, book.n - 1, true
  return true
end

-- Goes on where the last call ended (`p`): most of a large filter may never have been written.
function Kinds.bloom.purge(book, budget)
  local from = tonumber(call('HGET', book.key, 'p')) or 0
  for i = book.layers, 1, -1 do
    local segments = book.shapes[i].segments
    for segment = from, segments - 1 do
      if budget <= 0 then
        call('HSET', book.key, 'layers', i, 'p', segment)
        return false
      end
      call('UNLINK', book.key .. ':' .. i .. ':' .. segment)
      budget = budget - 1
    end
    from = 0
  end
  call('UNLINK', book.key .. ':f', book.key)
  return true
end

-- rolling and hits: the hash at `key` has g (number of the newest generation), at (when it began: ms, or the round if the window
-- is one of rounds), o (the oldest that may still exist), w (the newest that was written to). Generation g is an exact memory
-- at `key:<g>`.

-- How long a generation is the newest, in ms or rounds, nil if fingerprints are counted; and how many are kept behind it.
function Seen.span(policy)
  if policy.window > 0 then return policy.window / GENERATIONS, GENERATIONS end
  local rounds = policy.window_rounds or 0
  if rounds == 0 then return nil, GENERATIONS end
  local span = ceil(rounds / GENERATIONS)
  return span, ceil(rounds / span)
end

function Kinds.rolling.open(book)
  local v = call('HMGET', book.key, 'g', 'at', 'o', 'w')
  book.g, book.at, book.oldest = tonumber(v[1]) or 1, tonumber(v[2]), tonumber(v[3]) or 1
  book.written = tonumber(v[4]) or book.g
  if not book.at then
    book.at, book.changed = book.clock, true
  end
  book.sets = {}
  Kinds.rolling.turn(book)
end

local function generation(book, g)
  local set = book.sets[g]
  if not set then
    set = Exact.open({key = book.key .. ':' .. g})
    book.sets[g] = set
  end
  return set
end

-- Starts a new generation when the newest is old or large enough, and lets go of those past the window.
function Kinds.rolling.turn(book)
  local span, kept = Seen.span(book.policy)
  if span then
    local turns = floor((book.clock - book.at) / span)
    if turns > 0 then
      book.g, book.at, book.changed = book.g + turns, book.at + turns * span, true
    end
  elseif generation(book, book.g).n >= ceil(book.policy.window_count / GENERATIONS) then
    book.g, book.at, book.changed = book.g + 1, book.clock, true
  end
  local keep = book.g - kept
  -- After a long rest only generations that exist need to go; a bounded number per call, and what is not yet gone is
  -- no longer asked.
  local budget = 64
  while book.oldest < keep and budget > 0 do
    -- One that began in this very call is not written yet.
    local set = book.sets[book.oldest]
    if set then
      Exact.save(set)
      book.sets[book.oldest] = nil
    end
    if book.oldest > book.written then
      book.oldest = keep
    elseif call('EXISTS', book.key .. ':' .. book.oldest) == 0 or Exact.purge(book.key .. ':' .. book.oldest, budget) then
      if book.page_texts then call('UNLINK', book.page_texts .. ':' .. book.oldest) end
      book.oldest = book.oldest + 1
    end
    budget = budget - 1
    book.changed = true
  end
  book.from = max(1, keep)
end

function Kinds.rolling.has(book, fp)
  for g = book.g, book.from, -1 do
    if Exact.has(generation(book, g), fp) then return true, g end
  end
  return false
end

function Kinds.rolling.add(book, fp)
  if book.policy.window_count > 0 then Kinds.rolling.turn(book) end
  if book.written < book.g then book.written, book.changed = book.g, true end
  for g = book.g - 1, book.from, -1 do
    local set = generation(book, g)
    if set.n > 0 and Exact.has(set, fp) then
      if book.policy.kind == 'hits' then
        Exact.remove(set, fp)
        Exact.add(generation(book, book.g), fp)
      end
      return false
    end
  end
  return Exact.add(generation(book, book.g), fp)
end

function Kinds.rolling.save(book)
  for _, set in pairs(book.sets) do Exact.save(set) end
  if book.changed then call('HSET', book.key, 'g', book.g, 'at', book.at, 'o', book.oldest, 'w', book.written) end
end

function Kinds.rolling.count(book)
  local n = 0
  for g = book.from, book.g do n = n + generation(book, g).n end
  return n
end

function Kinds.rolling.bytes(book)
  local sum = call('MEMORY', 'USAGE', book.key) or 0
  for g = book.from, book.g do
    local set = generation(book, g)
    if set.n > 0 then sum = sum + Exact.bytes(set) end
  end
  return sum
end

function Kinds.rolling.forget(book, fp)
  local found, g = Kinds.rolling.has(book, fp)
  return found and Exact.remove(generation(book, g), fp)
end

function Kinds.rolling.purge(book, budget)
  for g = book.oldest, min(book.g, book.written) do
    if call('EXISTS', book.key .. ':' .. g) == 1 and not Exact.purge(book.key .. ':' .. g, budget) then return false end
    if book.page_texts then call('UNLINK', book.page_texts .. ':' .. g) end
  end
  call('UNLINK', book.key)
  return true
end

-- Opens a memory at `key` under `policy` {kind, scope, capacity, error, window (ms), window_count, window_rounds}. `clock` is what
-- its window is measured by (`Seen.clock`); `page_texts` is the key of what is known of its pages' texts, if it is one of a crawl.
function Seen.open(key, policy, clock, page_texts)
  local book = {key = key, policy = policy, clock = clock, kind = Kinds[policy.kind], page_texts = page_texts}
  book.kind.open(book)
  return book
end

-- The time, or the round of the group if the window is one of rounds.
function Seen.clock(S, group, policy)
  if (policy.window_rounds or 0) == 0 then return S.now end
  return tonumber(call('HGET', S.b .. K.rounds, group)) or 0
end

-- There is one memory per group and distinct policy, and per round where the scope says so.
function Seen.name(S, group, policy)
  local name = group .. '|' .. policy.spec
  if policy.scope ~= 'round' then return name end
  return name .. '|' .. (call('HGET', S.b .. K.rounds, group) or '0')
end

-- The memory that a lane uses.
function Seen.of(S, lane)
  local policy = lane.seen
  if policy.scope == 'never' then return nil end
  local name = Seen.name(S, lane.group, policy)
  S.books = S.books or {}
  local book = S.books[name]
  if not book then
    local number = call('HGET', S.b .. K.seen_names, name)
    if not number then
      number = call('HINCRBY', S.b .. K.meta, 'book', 1)
      call('HSET', S.b .. K.seen_names, name, number)
      call('HSET', S.b .. K.seen_policy, number, pack(policy))
    end
    book = Seen.open(S.b .. K.seen .. number, policy, Seen.clock(S, lane.group, policy), S.b .. K.page_texts .. number)
    S.books[name] = book
  end
  return book
end

function Seen.save(S)
  for _, book in pairs(S.books or {}) do book.kind.save(book) end
end
