-- restore: puts what a snapshot read back, line by line. Lines up to the one that was restored here before are left out, so
-- that a restore that broke off may begin again from the first line.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {snapshot, upto (line), entries[], epoch (of the state that has what was restored before; another one may lack lines of
--            it) or ''}; then one record per entry ('' where it needs none). Entries, each after
--            its line: request {state, lane, host, priority, due ms, filtered, fingerprint, attempts, strikes}; page {lane, host, priority, state, first, last, since, due, interval (ms), version, status,
--            changes, misses, signature in two halves, trail[{event, seconds}]}; dead {group,
--            lane, host, priority, attempts, strikes, reason, detail, at ms}; memory {name, policy}; seen {name,
--            fingerprints[], began ms, generations behind}; page_texts {lane} with its pages as `scan` has them; forgotten {name, fingerprints[]}; layers {name, flat state};
--            bits {name, layer, segment, offset}; counts {fields, lane or false}; counters {group, flat}; round {group, round,
--            start, home}; logged {group, round, fields}; standing {group, round, counts}; daily {group, day, counts}; item {group}; document {kind|name,
--            version, at ms, who, note, digest, deleted, keep}
-- Returns letters: r restored, k known already, s restored before, u names a lane or memory that is not there; without
--            entries msgpack {the last restored line, epoch}
-- Cost    O(entries)

local Restores = {}

-- As Queue.push, in the order in which a snapshot reads: from the end of a FIFO queue to its head.
local function push_back(S, lane, priority, host, record)
  local spot = place(lane.id, priority, host)
  local length = call(lane.lifo and 'RPUSH' or 'LPUSH', S.b .. K.queue .. spot, record)
  if length == 1 and not in_front(S, spot) then enter_ring(S, lane, priority, host) end
  journal(S, {lane.name, host, priority, record})
end

function Restores.request(S, e, record)
  local state, lane, host = e[ENTRY_REQUEST.state], Lane.by_name(S, e[ENTRY_REQUEST.lane]), e[ENTRY_REQUEST.host]
  local priority, due = e[ENTRY_REQUEST.priority], e[ENTRY_REQUEST.due]
  local filtered, fp = e[ENTRY_REQUEST.filtered], e[ENTRY_REQUEST.fingerprint]
  if not lane or lane.closed then return 'u' end
  local text = filtered and Changed.text(record)
  if filtered and lane.records then
    local name, is_new = sub(record, 2, 9), Pages.restored(S, lane, host, priority, record)
    local under_way = text and not is_new and Changed.under_way(S, Due.book(S, lane), name) or ''
    if under_way ~= '' and under_way ~= text then
      Changed.wait(S, lane, {lane.name, host, priority, max(0, due - S.now)}, 'c' .. fp, record)
      return 'r'
    end
    if not is_new then return 'k' end
    if text then Changed.queued(S, Due.book(S, lane), name, text) end
  end
  local book = filtered and Seen.of(S, lane)
  if book and text and not lane.records then
    local wanted = Changed.wanted(S, book, sub(record, 2, 9), text, book.kind.add(book, fp))
    if wanted == nil then Changed.wait(S, lane, {lane.name, host, priority, max(0, due - S.now)}, 'c' .. fp, record) end
    if not wanted then return wanted == nil and 'r' or 'k' end
    book = nil
  end
  -- A bloom filter may take a new one for known: better fetched twice than never.
  if book and not book.kind.add(book, fp) and lane.seen.kind ~= 'bloom' then return 'k' end
  if e[ENTRY_REQUEST.attempts] > 0 then
    S.m.id = S.m.id + 1
    record = again(S.m.id, e[ENTRY_REQUEST.attempts], e[ENTRY_REQUEST.strikes], record)
  end
  if due > S.now then
    Queue.delay(S, lane, priority, host, record, due)
    count(S, lane.id .. '|d', 1)
  else
    if state == 'queued' then
      push_back(S, lane, priority, host, record)
    elseif state == 'new' or state == 'delayed' then
      Queue.push(S, lane, priority, host, {record})
    else
      Queue.push_front(S, lane, priority, host, record)
    end
    count(S, lane.id .. '|q', 1)
  end
  open_change(S, lane.group, 1)
  return 'r'
end

-- Stands behind the requests: what they queued has its record by now, and gets its history.
function Restores.page(S, e, record)
  local lane = Lane.by_name(S, e[ENTRY_PAGE.lane])
  if not lane or lane.closed or not lane.records then return 'u' end
  local trail = {}
  for i, event in ipairs(e[ENTRY_PAGE.trail]) do trail[i] = struct.pack('>BI4', event[1], event[2]) end
  local signature = e[ENTRY_PAGE.signature]
  return Pages.restore(S, lane, sub(record, 2, 9), {
    state = e[ENTRY_PAGE.state], first = e[ENTRY_PAGE.first], last = e[ENTRY_PAGE.last], since = e[ENTRY_PAGE.since],
    interval = e[ENTRY_PAGE.interval], version = e[ENTRY_PAGE.version], status = e[ENTRY_PAGE.status],
    signature = struct.pack('>I4I4', signature[1], signature[2]), changes = e[ENTRY_PAGE.changes], misses = e[ENTRY_PAGE.misses],
    priority = e[ENTRY_PAGE.priority], host = e[ENTRY_PAGE.host], payload = sub(record, 10), trail = table.concat(trail),
  }, e[ENTRY_PAGE.due])
end

function Restores.dead(S, e, record)
  local lease = {
    '', e[ENTRY_DEAD.host], e[ENTRY_DEAD.priority], e[ENTRY_DEAD.attempts], e[ENTRY_DEAD.strikes], '', '', 0, record,
  }
  local dead = bury(S, e[ENTRY_DEAD.group], e[ENTRY_DEAD.lane], lease, 0, e[ENTRY_DEAD.reason], e[ENTRY_DEAD.detail])
  local v = unpack_msg(call('HGET', S.b .. K.dead, dead))
  v[DEAD.at] = e[ENTRY_DEAD.at]
  call('HSET', S.b .. K.dead, dead, pack(v))
  call('ZADD', S.b .. K.dead_order .. e[ENTRY_DEAD.group], e[ENTRY_DEAD.at], dead)
  return 'r'
end

-- The memory called `name`, opened once per call; nil if there is none.
local function memory(S, name, policy)
  S.books = S.books or {}
  local book = S.books[name]
  if book then return book end
  local number, group = call('HGET', S.b .. K.seen_names, name), string.match(name, '^([^|]*)|')
  if not number then
    if not policy then return nil end
    number = call('HINCRBY', S.b .. K.meta, 'book', 1)
    call('HSET', S.b .. K.seen_names, name, number)
    call('HSET', S.b .. K.seen_policy, number, pack(policy))
    if policy.kind == 'rolling' or policy.kind == 'hits' then
      -- Room below the newest generation for those that are older.
      call('HSET', S.b .. K.seen .. number, 'g', GENERATIONS + 1, 'at', Seen.clock(S, group, policy), 'o', 1, 'w', GENERATIONS + 1)
    end
  end
  policy = policy or unpack_msg(call('HGET', S.b .. K.seen_policy, number))
  book = Seen.open(S.b .. K.seen .. number, policy, Seen.clock(S, group, policy), S.b .. K.page_texts .. number)
  S.books[name] = book
  return book
end

function Restores.memory(S, e)
  memory(S, e[ENTRY_MEMORY.name], e[ENTRY_MEMORY.policy])
  return 'r'
end

function Restores.seen(S, e)
  local book = memory(S, e[ENTRY_SEEN.name])
  if not book then return 'u' end
  local set
  if book.policy.kind == 'exact' then
    set = book
  else
    local behind = e[ENTRY_SEEN.behind]
    local span, kept = Seen.span(book.policy)
    if span then behind = max(0, ceil((book.at - e[ENTRY_SEEN.began]) / span)) end
    if behind > kept then return 'k' end
    set = generation(book, max(book.from, book.g - behind))
  end
  for _, fp in ipairs(e[ENTRY_SEEN.fingerprints]) do
    if set == book or not book.kind.has(book, fp) then Exact.add(set, fp) end
  end
  return 'r'
end

-- Stands behind the requests and pages.
function Restores.page_texts(S, e, pages)
  local lane = Lane.by_name(S, e[ENTRY_PAGE_TEXTS.lane])
  local holder = lane and not lane.closed and Seen.holder(S, lane)
  if not holder then return 'u' end
  for at = 1, #pages, 24 do
    local name = sub(pages, at, at + 7)
    local raw = lane.records and call('HGET', holder.pages, name)
    if raw or not lane.records then
      Changed.restore(S, holder, name, sub(pages, at + 8, at + 15), sub(pages, at + 16, at + 23), raw and byte(raw) == Page.FOUND)
    end
  end
  return 'r'
end

function Restores.forgotten(S, e)
  local book = memory(S, e[ENTRY_FORGOTTEN.name])
  if not book then return 'u' end
  for _, fp in ipairs(e[ENTRY_FORGOTTEN.fingerprints]) do
    if call('SADD', book.key .. ':f', fp) == 1 then book.forgotten, book.changed = book.forgotten + 1, true end
  end
  return 'r'
end

function Restores.layers(S, e)
  local book = memory(S, e[ENTRY_LAYERS.name])
  if not book then return 'u' end
  local state = {}
  for i = 1, #e[ENTRY_LAYERS.state], 2 do state[e[ENTRY_LAYERS.state][i]] = tonumber(e[ENTRY_LAYERS.state][i + 1]) end
  while book.layers < (state.layers or 1) do
    call('HSET', book.key, 'n' .. book.layers, max(book.last, state['n' .. book.layers] or 0))
    book.layers, book.last = book.layers + 1, 0
    book.shapes[book.layers] = layer_shape(book, book.layers)
  end
  -- Requests that were restored before are among those that the snapshot counted.
  book.n, book.changed = max(book.n, state.n or 0), true
  if book.layers == (state.layers or 1) then book.last = max(book.last, state['n' .. book.layers] or 0) end
  return 'r'
end

function Restores.bits(S, e, bytes)
  local book = memory(S, e[ENTRY_BITS.name])
  if not book or not book.shapes[e[ENTRY_BITS.layer]] then return 'u' end
  local key = book.key .. ':' .. e[ENTRY_BITS.layer] .. ':' .. e[ENTRY_BITS.segment]
  local old, out = call('GETRANGE', key, e[ENTRY_BITS.offset], e[ENTRY_BITS.offset] + #bytes - 1), {}
  for i = 1, #bytes do out[i] = string.char(bit.bor(byte(bytes, i), byte(old, i) or 0)) end
  call('SETRANGE', key, e[ENTRY_BITS.offset], table.concat(out))
  return 'r'
end

function Restores.counts(S, e)
  local prefix = e[ENTRY_COUNTS.lane]
  if prefix then
    local lane = Lane.by_name(S, prefix)
    if not lane then return 'u' end
    prefix = lane.id .. '|'
  else
    prefix = ''
  end
  for i = 1, #e[ENTRY_COUNTS.fields], 2 do count(S, prefix .. e[ENTRY_COUNTS.fields][i], e[ENTRY_COUNTS.fields][i + 1]) end
  return 'r'
end

function Restores.counters(S, e)
  local fields = e[ENTRY_COUNTERS.fields]
  for i = 1, #fields, 2 do
    local key, name = Coverage.place(S, e[ENTRY_COUNTERS.group], fields[i])
    if key then call('HINCRBYFLOAT', key, name, fields[i + 1]) end
  end
  return 'r'
end

-- A start that was leased when the snapshot was taken is owed again.
function Restores.round(S, e)
  local group, round, start, home = e[ENTRY_ROUND.group], e[ENTRY_ROUND.round], e[ENTRY_ROUND.start], e[ENTRY_ROUND.home]
  local now = tonumber(call('HGET', S.b .. K.rounds, group)) or 0
  if round < now then return 'k' end
  call('HSET', S.b .. K.rounds, group, round)
  local raw = home and call('HGET', S.b .. K.starts, group)
  if raw then
    local v = unpack_msg(raw)
    local state = start == 'done' and 'done' or 'owed'
    if round > v[RIGHT.round] or state == 'done' then
      if v[RIGHT.state] ~= 'done' and state == 'done' then open_change(S, group, -1) end
      if v[RIGHT.state] == 'done' and state ~= 'done' then open_change(S, group, 1) end
      call('HSET', S.b .. K.starts, group, pack({round, state, '', 0}))
    end
  end
  return 'r'
end

-- A round as it was logged. What comes after it is not done twice.
function Restores.logged(S, e)
  local group, number, fields = e[ENTRY_LOGGED.group], e[ENTRY_LOGGED.round], e[ENTRY_LOGGED.fields]
  Round.note(S, group, number, fields)
  if fields.closed and number == Round.present(S, group) then
    call('HSET', S.b .. K.ends, group, pack({number, 'done', '', 0}))
  end
  return 'r'
end

-- What a day brought. Stands after all that was counted, which belongs to the days of the snapshot.
function Restores.daily(S, e)
  Daily.add(S, e[ENTRY_DAILY.group], e[ENTRY_DAILY.day], e[ENTRY_DAILY.counts])
  Daily.rebase(S, e[ENTRY_DAILY.group])
  return 'r'
end

-- How far the present round has come. Stands after all that was counted.
function Restores.standing(S, e)
  if e[ENTRY_STANDING.round] ~= Round.present(S, e[ENTRY_STANDING.group]) then return 'k' end
  Round.rebase(S, e[ENTRY_STANDING.group], e[ENTRY_STANDING.round], e[ENTRY_STANDING.counts])
  return 'r'
end

function Restores.document(S, e, text)
  local raw = call('HGET', S.b .. K.documents, e[ENTRY_DOCUMENT.document])
  local head = raw and unpack_msg(raw)
  if head and head.version >= e[ENTRY_DOCUMENT.version] then return 'k' end
  Document.put(S, e[ENTRY_DOCUMENT.document], {
    version = e[ENTRY_DOCUMENT.version], oldest = head and head.oldest or e[ENTRY_DOCUMENT.version],
    at = e[ENTRY_DOCUMENT.at], who = e[ENTRY_DOCUMENT.who], note = e[ENTRY_DOCUMENT.note],
    digest = e[ENTRY_DOCUMENT.digest], deleted = e[ENTRY_DOCUMENT.deleted],
  }, head and head.version or 0, text, e[ENTRY_DOCUMENT.keep], S.snapshot)
  return 'r'
end

function Restores.item(S, e, data)
  Items.append(S, e[ENTRY_ITEM.group], {data}, 1, 1, e[ENTRY_ITEM.position])
  return 'r'
end

function Restores.consumer(S, e)
  local added = call('HSETNX', S.b .. K.consumers .. e[ENTRY_CONSUMER.group], e[ENTRY_CONSUMER.name], e[ENTRY_CONSUMER.position])
  return added == 1 and 'r' or 'k'
end

verb('restore', {}, function(S, h, args)
  local before = tonumber(call('HGET', S.b .. K.restored, h.snapshot)) or 0
  if (h.epoch or '') ~= '' and h.epoch ~= S.m.epoch then
    return fail('REPLACED', '')
  end
  local letters = {}
  S.snapshot = h.snapshot
  for i, e in ipairs(h.entries) do
    letters[i] = e[ENTRY.line] <= before and 's' or Restores[e[ENTRY.kind]](S, e, args[i + 1])
  end
  Seen.save(S)
  S.books = nil
  if h.upto > before then call('HSET', S.b .. K.restored, h.snapshot, h.upto) end
  S.changed = true
  finish(S)
  if #h.entries == 0 then return pack({max(before, h.upto), S.m.epoch}) end
  return table.concat(letters)
end)
