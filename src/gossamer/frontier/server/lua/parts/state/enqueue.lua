-- Adding requests: marking seen and queueing are one step.
--
-- Requests come grouped: {lane, host, priority, delay ms, entries, lengths, pages or nil}, and all their records in one text, one
-- after the other, so that those of duplicates are never cut out. An entry is the fingerprint's decimal text, or unfiltered: ''
-- (always) or 'k<key>' (at most once per key); or 'c' and that text for a request with a text (see changed.lua). `pages` says whose children they are: number of the settlement, how many, and so
-- on. Answers one text per group, a letter per entry (see AddOutcome).

local Enqueue = {}

local function queued_in(S, lane_id)
  local lane = Lane.by_id(S, lane_id)
  local found = lane and lane.records and count_now(S, lane_id .. '|w') or 0
  return count_now(S, lane_id .. '|q') + count_now(S, lane_id .. '|d') + found
end

-- How many more the lane takes from producers; nil: no limit. `rooms` holds what was found for lanes and groups in this
-- call, less what was added since.
local function room_of(S, lane, rooms)
  local room
  if lane.max_queued > 0 then
    rooms.lanes[lane.id] = rooms.lanes[lane.id] or lane.max_queued - queued_in(S, lane.id)
    room = rooms.lanes[lane.id]
  end
  local group = Lane.group(S, lane.group)
  if group and group.max_queued > 0 then
    if not rooms.groups[lane.group] then
      local queued = 0
      for _, id in ipairs(call('SMEMBERS', S.b .. K.group_lanes .. lane.group)) do queued = queued + queued_in(S, id) end
      rooms.groups[lane.group] = group.max_queued - queued
    end
    room = min(room or huge, rooms.groups[lane.group])
  end
  return room
end

local function fill_room(lane, rooms, added)
  if rooms.lanes[lane.id] then rooms.lanes[lane.id] = rooms.lanes[lane.id] - added end
  if rooms.groups[lane.group] then rooms.groups[lane.group] = rooms.groups[lane.group] - added end
end

-- The number of the round whose start has this key (courier/rounds.py makes them); nil for any other key.
local function round_of_start(group, key)
  local prefix = 's' .. group .. ':'
  return sub(key, 1, #prefix) == prefix and tonumber(string.match(key, '^(%d+):', #prefix + 1))
end

-- Whether something was added to the group under this key. Keys go with their group: the next one of its name knows none. What belongs
-- to a round that this partition has lost counts as added: the round begins again, and its start then finds no key in use.
local function keyed_before(S, group, key)
  local round = round_of_start(group, key)
  if round and round > (tonumber(call('HGET', S.b .. K.rounds, group)) or 0) then return true end
  S.keyed = S.keyed or {}
  S.keyed[group] = (S.keyed[group] or 0) + 1
  return call('ZADD', S.b .. K.keyed .. group, 'NX', S.now, key) == 0
end

-- Removes more old keys than this call has brought, so that no more are kept than a week brings, and a bounded part.
local function trim_keyed(S)
  for group, brought in pairs(S.keyed or {}) do
    local key = S.b .. K.keyed .. group
    local old = call('ZRANGEBYSCORE', key, '-inf', S.now - KEYED_TTL, 'LIMIT', 0, 2 * brought + 200)
    if #old > 0 then call_chunked('ZREM', key, old) end
    call('PEXPIRE', key, KEYED_TTL)
  end
  S.keyed = nil
end

-- Which entries are children of lost pages; nil: none.
local function refused_of(pages, lost)
  if not pages then return nil end
  local refused, at = {}, 0
  for i = 1, #pages, 2 do
    for _ = 1, pages[i + 1] do
      at = at + 1
      refused[at] = lost[pages[i]]
    end
  end
  return refused
end

-- Whether a request with a text is to be queued: its page is new, or was last fetched with another text. Where it is under way with
-- another one, the request waits.
local function is_wanted(S, lane, book, g, entry, record)
  if not book then return true end
  local is_new = book.kind.add(book, sub(entry, 2))
  local wanted = Changed.wanted(S, book, sub(record, 2, 9), Changed.text(record), is_new)
  if wanted == nil then Changed.wait(S, lane, g, entry, record) end
  return wanted
end

-- Children that name an unknown lane are kept as dead letters, so that a typo loses nothing: of the group that they name, or
-- else of their page's. If neither exists, an operator has dropped them.
local function keep_unknown(S, g, record, page_group)
  local group = string.match(g[BATCH.lane], '^(.*)%.[^.]*$') or g[BATCH.lane]
  if not Lane.group(S, group) then group = page_group end
  if not group or not Lane.group(S, group) then return end
  bury(S, group, g[BATCH.lane], {'', g[BATCH.host], g[BATCH.priority], 0, 0, '', '', 0, record}, 0, 'unknown_lane', 'no lane ' .. g[BATCH.lane])
end

-- `bound`: the limits apply (producers); children of pages are always taken. `lost` = settlements that lost their lease;
-- `page_group` = the group of the pages.
-- Returns the outcomes and the smallest room left (nil: no limit).
function Enqueue.add(S, groups, blob, bound, lost, page_group)
  local outcomes, least, at, rooms, books = {}, nil, 1, {lanes = {}, groups = {}}, {}
  local any_lost = next(lost) ~= nil
  local full = bound and memory_full(S)
  for gi, g in ipairs(groups) do
    local entries, lengths = g[BATCH.entries], g[BATCH.lengths]
    local n = #entries
    local lane = Lane.by_name(S, g[BATCH.lane])
    if not lane or lane.closed then
      local letters, refused = {}, any_lost and refused_of(g[BATCH.pages], lost)
      for i = 1, n do
        local late = refused and refused[i]
        letters[i] = late and 'l' or lane and 'c' or 'u'
        if not lane and not bound and not late then keep_unknown(S, g, sub(blob, at, at + lengths[i] - 1), page_group) end
        at = at + lengths[i]
      end
      outcomes[gi] = table.concat(letters)
    elseif full then
      outcomes[gi] = string.rep('f', n)
      least = 0
      for i = 1, n do at = at + lengths[i] end
    else
      local room = room_of(S, lane, rooms)
      local limit = bound and room or huge
      local letters, records, duplicates, found = {}, {}, 0, 0
      local book = books[lane]
      if book == nil then
        book = Seen.of(S, lane) or false
        books[lane] = book
      end
      local seen_add = book and book.kind.add
      local refused = any_lost and refused_of(g[BATCH.pages], lost)
      if lane.records then
        letters, records, duplicates, found, at = Pages.sift(S, lane, g, blob, at, limit, refused, keyed_before)
        n = 0
      end
      for i = 1, n do
        local entry = entries[i]
        local kind = byte(entry)
        local letter = 'a'
        if #records >= limit then
          letter = 'f'
        elseif refused and refused[i] then
          letter = 'l'
          count(S, 'g|' .. lane.group .. '|refused_children', 1)
        elseif kind == nil then
          letter = 'a'
        elseif kind == 107 then
          if keyed_before(S, lane.group, sub(entry, 2)) then letter = 'd' end
        elseif kind == 99 then
          if not is_wanted(S, lane, book, g, entry, sub(blob, at, at + lengths[i] - 1)) then
            letter = 'd'
            duplicates = duplicates + 1
          end
        elseif book and not seen_add(book, entry) then
          letter = 'd'
          duplicates = duplicates + 1
        end
        letters[i] = letter
        local after = at + lengths[i]
        if letter == 'a' then records[#records + 1] = sub(blob, at, after - 1) end
        at = after
      end
      local added = #records + found
      if added > 0 then
        if found > 0 then count(S, lane.id .. '|w', found) end
        if #records == 0 then
          -- All of them wait for the planner.
        elseif g[BATCH.delay] > 0 then
          for _, record in ipairs(records) do Queue.delay(S, lane, g[BATCH.priority], g[BATCH.host], record, S.now + g[BATCH.delay]) end
          count(S, lane.id .. '|d', #records)
        else
          Queue.push(S, lane, g[BATCH.priority], g[BATCH.host], records)
          count(S, lane.f.q, #records)
        end
        count(S, lane.f.added, added)
        count(S, lane.f.open, added)
        if room then
          fill_room(lane, rooms, added)
          if not bound and added > room then count(S, lane.id .. '|overflow', added - max(0, room)) end
          least = min(least or huge, max(0, room - added))
        end
      elseif room then
        least = min(least or huge, max(0, room))
      end
      if duplicates > 0 then count(S, lane.f.dup, duplicates) end
      outcomes[gi] = table.concat(letters)
    end
  end
  Seen.save(S)
  S.books = nil
  trim_keyed(S)
  return outcomes, least
end

queue_newer = function(S, group, record)
  Enqueue.add(S, {group}, record, false, {})
end

-- counters[i] = {group, name, value, op}. A worker that outlives its group leaves nothing of it behind. Items of no page
-- that others keep come as a counter, and count as items.
function Enqueue.counters(S, counters)
  for _, c in ipairs(counters) do
    local op = c[COUNTER.op]
    if Lane.group(S, c[COUNTER.group]) then
      local key, name = Coverage.place(S, c[COUNTER.group], c[COUNTER.name])
      -- They come to one partition; leases of the group may end on others only.
      Daily.touch(S, c[COUNTER.group])
      if c[COUNTER.name] == 'gossamer/items' then
        count(S, 'g|' .. c[COUNTER.group] .. '|items', floor(c[COUNTER.value]))
      elseif key and op == 'add' then
        call('HINCRBYFLOAT', key, name, c[COUNTER.value])
      elseif key then
        local old = op ~= 'set' and tonumber(call('HGET', key, name))
        if not old or (op == 'max' and c[COUNTER.value] > old) or (op == 'min' and c[COUNTER.value] < old) then call('HSET', key, name, c[COUNTER.value]) end
      end
      S.changed = true
    end
  end
end

-- A call that was answered before is answered again from what was kept. Returns the kept answer, or an error.
local function kept_answer(S, incarnation, sequence)
  local raw = call('GET', S.b .. K.answers .. incarnation)
  if not raw then return nil end
  local kept = unpack_msg(raw)
  if kept[ANSWER.sequence] == sequence then return kept end
  if kept[ANSWER.sequence] > sequence then
    return nil, fail('TOKEN', 'call ' .. sequence .. ' of ' .. incarnation .. ' comes after call ' .. kept[ANSWER.sequence])
  end
end

local function keep_answer(S, incarnation, kept, ttl)
  call('SET', S.b .. K.answers .. incarnation, pack(kept), 'PX', ttl or ANSWER_TTL)
end
