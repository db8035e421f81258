-- Page records: what is known of every page of a lane that keeps records. They are the memory of such a lane.
--
-- `pages` is a hash per lane with records: fingerprint (8 bytes) -> record (page_record.lua). `recorded` maps lane id -> number of its
-- two keys, this and `page_due` (page_due.lua).

local Pages = {}

do
  local FOUND, SCHEDULED, FINISHED = Page.FOUND, Page.SCHEDULED, Page.FINISHED
  local WRITE_MAX = UNPACK_MAX / 2
  local NO_SIGNATURE = Page.NO_SIGNATURE
  local BY_HAND = 2147483647 -- The priority of a page that a user asked for: it goes ahead once, not with every visit.

  -- A link with a text leads to a page that is queued or waits. Answers its record as the link says, if it waits and the text is another one;
  -- else the request waits where that is so.
  local function linked_again(S, lane, book, g, entry, record, raw, version)
    local name, text = sub(record, 2, 9), Changed.text(record)
    local under_way = Changed.under_way(S, book, name)
    if Changed.is_under_way(text, under_way) or under_way == '' and not Changed.differs(book, name, text) then return nil end
    if byte(raw) == SCHEDULED then
      Changed.wait(S, lane, g, entry, record)
      return nil
    end
    Changed.queued(S, book, name, text)
    return Page.sighted(S, raw, FOUND, version, g[BATCH.priority], g[BATCH.host], sub(record, 18))
  end

  -- Requests of one place in the queue, in a lane with records (see Enqueue.add). Answers letters, the records to be queued, how many
  -- are duplicates, how many were found and wait for the planner, and where the next record begins.
  function Pages.sift(S, lane, g, blob, at, limit, refused, keyed_before)
    local entries, lengths, n = g[BATCH.entries], g[BATCH.lengths], #g[BATCH.entries]
    local book, rules, version = Due.book(S, lane), lane.records, Due.version(S, lane.group)
    local starts, names, asked, digests = {}, {}, {}, {}
    for i = 1, n do
      local kind = byte(entries[i])
      starts[i] = at
      if kind and kind ~= 107 then
        local name = sub(blob, at + 1, at + 8)
        if kind == 99 then digests[i] = sub(blob, at + 9, at + 16) end
        names[i], asked[#asked + 1] = name, name
      end
      at = at + lengths[i]
    end
    local known = {}
    if #asked > 0 then
      for i, raw in ipairs(read_many(book.pages, asked)) do known[asked[i]] = raw end
    end
    local letters, records, set, due, back, first, taken, found, duplicates = {}, {}, {}, {}, {}, huge, 0, 0, 0
    local later, soonest, stem = {'LT'}, huge, nil
    local waits, host, priority = Due.is_fed(S), g[BATCH.host], g[BATCH.priority]
    local state = waits and FOUND or SCHEDULED
    for i = 1, n do
      local letter, name, stop = 'a', names[i], starts[i] + lengths[i] - 1
      if taken >= limit then
        letter = 'f'
      elseif refused and refused[i] then
        letter = 'l'
        count(S, 'g|' .. lane.group .. '|refused_children', 1)
      elseif not name then
        local entry = entries[i]
        if entry ~= '' and keyed_before(S, lane.group, sub(entry, 2)) then letter = 'd' end
      else
        local raw, value, when, former = known[name], nil, nil, nil
        local text = digests[i]
        local payload_at = starts[i] + (text and 17 or 9)
        if raw and byte(raw) > SCHEDULED then
          when, former = Page.wanted(S, rules, raw, version)
          if text and when ~= 0 and Changed.differs(book, name, text) then when, former = 0, nil end
          if not when and Page.is_outdated(S, rules, raw) then
            raw = nil
            if not waits then back[#back + 1] = name end
          end
        end
        if not raw then
          stem = stem or Page.stem(S, state, version, priority, host)
          value = stem .. sub(blob, payload_at, stop) .. Page.found(S)
        elseif byte(raw) <= SCHEDULED then
          letter = 'd'
          local newer = text and linked_again(S, lane, book, g, entries[i], sub(blob, starts[i], stop), raw, version)
          if newer then known[name], set[#set + 1], set[#set + 2] = newer, name, newer end
        elseif when == 0 then
          value = Page.sighted(S, raw, state, version, priority, host, sub(blob, payload_at, stop))
          if not waits then back[#back + 1] = name end
        else
          letter = 'd'
          if former then
            local p = Page.read(raw)
            p.interval = 0
            known[name] = Page.write(p)
            call('HSET', book.pages, name, known[name])
            call('ZREM', book.due, name)
          end
          if when then
            later[#later + 1] = when
            later[#later + 1] = name
            soonest = min(soonest, when)
          end
        end
        if value then
          if text then Changed.queued(S, book, name, text) end
          known[name] = value
          set[#set + 1] = name
          set[#set + 1] = value
          if waits then
            local score = S.now + g[BATCH.delay] + min(found, 999) / 1000
            due[#due + 1] = score
            due[#due + 1] = name
            first, found = min(first, score), found + 1
            journal(S, {lane.name, host, priority, sub(blob, starts[i], stop), g[BATCH.delay] > 0 and S.now + g[BATCH.delay] or nil})
          end
        else
          duplicates = duplicates + 1
        end
      end
      if letter == 'a' then
        taken = taken + 1
        if not (name and waits) then records[#records + 1] = sub(blob, starts[i], stop) end
      end
      letters[i] = letter
    end
    if #later > 1 then
      call('ZADD', book.due, unpack(later))
      Due.falls(S, lane, soonest)
    end
    if #set > 0 then
      call_chunked('HSET', book.pages, set)
      if #back > 0 then call_chunked('ZREM', book.due, back) end
      Due.put(S, lane, book, due, first)
      if Due.bounded(rules) then Due.trim(S, lane, book, #set / 2) end
    end
    return letters, records, duplicates, found, at
  end

  -- Filled again by every call: a table that grows costs the server more than what is put into it.
  local names, set, due = {}, {}, {}

  -- Writes what became of the pages of places[first..last], whose names are the first in `names`, each another.
  local function write(S, lane, places, first, last, leases, settle, seen)
    local book, rules, now = Due.book(S, lane), lane.records, S.now
    local bounded, s, d, soonest = Due.bounded(rules), 0, 0, huge
    local raws = call('HMGET', book.pages, unpack(names, 1, last - first + 1))
    local signatures, mixed = seen.signatures, places.mixed
    local status, code, start, plain, run, upto = 0, '', '', true, -1, 0
    local fresh, head, event, wait = Page.first_visit(S, rules)
    for p = first, last do
      local i, name, raw = places[p], names[p - first + 1], raws[p - first + 1]
      while i > upto do
        run = run + 2
        status, upto = seen.statuses[run] or 0, seen.statuses[run + 1] and upto + seen.statuses[run + 1] or huge
        code, plain = Page.status(status)
        start = head .. code
      end
      local unfiltered, ending = mixed and byte(leases[i][LEASE.record]) == 2, settle[i][SETTLEMENT.ending]
      local decides = not (raw and (unfiltered or byte(raw) == FOUND))
      if not raw then
        -- Queued without a look at the records, or before the lane kept any.
        local v = leases[i]
        local priority = v[LEASE.priority]
        raw = Page.new(S, SCHEDULED, Due.version(S, lane.group), priority < BY_HAND and priority or 0, v[LEASE.host], sub(Changed.plain(v[LEASE.record]), 10))
      end
      -- Another request for a page that is queued or waits: that one decides. And whoever asks for a page without a look at the records, and is
      -- led elsewhere, may be led back to it, to be asked for as any other: it was not visited.
      if (decides or byte(raw) > SCHEDULED) and not (unfiltered and ending == 'replaced') then
        local signature = signatures and sub(signatures, 8 * i - 7, 8 * i) or NO_SIGNATURE
        local numbers, value, state, at = plain and (not ending or ending == 'done') and fresh[sub(raw, 8, 32)], nil, nil, nil
        if numbers then
          value, at = start .. signature .. numbers .. sub(raw, 33) .. event, wait and now + wait
        else
          value, state, at = Page.visited(S, rules, raw, ending, status, code, signature)
        end
        set[s + 1], set[s + 2], s = name, value, s + 2
        if bounded and not at then at = Due.rest(rules, state, now) end
        if at then
          due[d + 1], due[d + 2], d = at, name, d + 2
          if at < soonest then soonest = at end
        elseif not numbers and byte(raw) > SCHEDULED then
          -- It was visited by another request than the one that it might have been due for.
          call('ZREM', book.due, name)
        end
      end
    end
    if s == 0 then return end
    call('HSET', book.pages, unpack(set, 1, s))
    if d > 0 then
      call('ZADD', book.due, unpack(due, 1, d))
      Due.falls(S, lane, soonest)
    end
    if bounded then Due.trim(S, lane, book, s / 2) end
  end

  -- Leases of the lane have ended, and no longer stand for their pages. `places` has the numbers of their settlements; n: how many they are,
  -- mixed: a page may be among them twice, since some are unfiltered. leases[i] as in `leases`. `seen`: what the pages were like; statuses: one, how many
  -- pages in a row have it, and so on; signatures: of all, one after the other, or nil.
  function Pages.settled(S, lane, places, leases, settle, seen)
    local first, known, mixed = 1, {}, places.mixed
    for p = 1, places.n do
      local name = sub(leases[places[p]][LEASE.record], 2, 9)
      if p - first >= WRITE_MAX or mixed and known[name] then
        write(S, lane, places, first, p - 1, leases, settle, seen)
        first, known = p, {}
      end
      if mixed then known[name] = true end
      names[p - first + 1] = name
    end
    write(S, lane, places, first, places.n, leases, settle, seen)
  end

  -- A lease ran out, and its request is given up.
  function Pages.failed(S, lane, v)
    Pages.settled(S, lane, {1, n = 1, mixed = true}, {v}, {{[SETTLEMENT.ending] = 'failed'}}, {statuses = {}})
  end

  -- The name of a fingerprint that is given as a signed decimal text: its 8 bytes.
  function Pages.name(text)
    local high, low, negative = 0, 0, byte(text) == 45
    for i = negative and 2 or 1, #text do
      low = low * 10 + byte(text, i) - 48
      high, low = high * 10 + floor(low / 4294967296), low % 4294967296
    end
    if negative then
      if low == 0 then high = 4294967296 - high else high, low = 4294967295 - high, 4294967296 - low end
    end
    return struct.pack('>I4I4', high % 4294967296, low)
  end

  -- The 8 bytes of a queued record; nil for unfiltered ones, and for what is no record.
  local function name_of(record)
    if not sound(record) then return nil end
    local _, _, _, first = parts(record)
    return byte(first) ~= 2 and sub(first, 2, 9) or nil
  end

  -- Records of the lane were dropped from its queue: one that was never visited is forgotten, another is as it was.
  function Pages.dropped(S, lane, records)
    local book = Due.book(S, lane)
    for _, record in ipairs(records) do
      local name = name_of(record)
      local raw = name and call('HGET', book.pages, name)
      if name then Changed.dropped(S, lane, book, name) end
      if raw and byte(raw) == SCHEDULED then
        local p = Page.read(raw)
        if p.last == 0 then
          call('HDEL', book.pages, name)
        else
          call('HSET', book.pages, name, Page.turn(S, raw, FINISHED, 'dropped'))
          local at = lane.records.revisit and p.interval > 0 and S.now + p.interval or Due.rest(lane.records, FINISHED, S.now)
          if at then Due.put(S, lane, book, {at, name}, at) end
        end
      end
    end
  end

  -- A request comes back into the queue of its lane (a dead letter, a snapshot). False where its page is queued or waits already.
  function Pages.queued(S, lane, host, priority, first)
    if byte(first) == 2 then return true end
    local book, name = Due.book(S, lane), sub(first, 2, 9)
    local raw = call('HGET', book.pages, name)
    if raw and byte(raw) <= SCHEDULED then return false end
    if raw then
      raw = Page.turn(S, raw, SCHEDULED, 'sighted')
    else
      raw = Page.new(S, SCHEDULED, Due.version(S, lane.group), priority, host, sub(Changed.plain(first), 10))
    end
    call('HSET', book.pages, name, raw)
    call('ZREM', book.due, name)
    local text = Changed.text(first)
    if text then Changed.queued(S, book, name, text) end
    return true
  end

  -- A request of a snapshot is queued: its page gets a record. False where it has one.
  function Pages.restored(S, lane, host, priority, first)
    local book = Due.book(S, lane)
    return call('HSETNX', book.pages, sub(first, 2, 9),
      Page.new(S, SCHEDULED, Due.version(S, lane.group), priority, host, sub(Changed.plain(first), 10))) == 1
  end

  -- A record of a snapshot. One that was queued when it was read, and is not now, may have been fetched since, or not: it waits.
  function Pages.restore(S, lane, name, p, due)
    local book = Due.book(S, lane)
    local raw = call('HGET', book.pages, name)
    if raw then
      local own = Page.read(raw)
      if own.state > SCHEDULED or own.last > 0 or p.last == 0 then return 'k' end
      own.first, own.last, own.interval, own.version = min(own.first, p.first), p.last, p.interval, max(own.version, p.version)
      own.status, own.signature, own.changes, own.misses, own.trail = p.status, p.signature, p.changes, p.misses, p.trail
      call('HSET', book.pages, name, Page.write(own))
      return 'k'
    end
    if p.state <= SCHEDULED then
      p.state, due = FOUND, max(due, S.now)
      count(S, lane.id .. '|w', 1)
      count(S, lane.f.open, 1)
    elseif due == 0 then
      due = Due.rest(lane.records, p.state, p.since)
    end
    call('HSET', book.pages, name, Page.write(p))
    if due then Due.put(S, lane, book, {due, name}, due) end
    return 'r'
  end

  -- Whether a page is known; with `forget` it is forgotten, unless it is queued or waits.
  function Pages.known(S, lane, text, forget)
    local book, name = Due.book(S, lane), Pages.name(text)
    local raw = call('HGET', book.pages, name)
    if raw and forget and byte(raw) > SCHEDULED then
      call('HDEL', book.pages, name)
      call('ZREM', book.due, name)
      Changed.forget(S, book, {name})
    end
    return raw and true or false
  end

  -- How many found pages wait, how many records there are, and when the first page is due (0: none).
  function Pages.numbers(S, lane)
    local book = Due.book(S, lane)
    if not book then return {0, 0, 0} end
    return {count_now(S, lane.id .. '|w'), call('HLEN', book.pages), Due.first(S, book)}
  end

  local function is_sooner(revisit, before)
    return not before or revisit.every < before.every or revisit.high < before.high or revisit.adaptive ~= before.adaptive
  end

  -- From now on a lane keeps records by these rules, or without rules none: `purge` removes those that it has, and puts pages that
  -- wait into its queue. Where pages were not visited again before, or later, or not bounded, `purge` gives them their place. To be said
  -- before the policy stamp changes.
  function Pages.keep(S, id, rules, before)
    local number = call('HGET', S.b .. K.recorded, id)
    if rules and not number then
      call('HSET', S.b .. K.recorded, id, call('HINCRBY', S.b .. K.meta, 'book', 1))
    elseif rules and (rules.revisit and is_sooner(rules.revisit, before and before.revisit) or Due.bounded(rules) and not (before and Due.bounded(before))) then
      call('RPUSH', S.b .. K.purge, 'r:' .. number .. ':' .. id .. ':0')
    elseif not rules and number then
      call('HDEL', S.b .. K.recorded, id)
      call('ZREM', S.b .. K.feeds, id)
      call('RPUSH', S.b .. K.purge, 'p:' .. number .. ':' .. id)
    end
  end

  -- Does a part of what `Pages.keep` has left to do: removes records of a lane that no longer keeps any, where pages that wait are
  -- queued if the lane is still there; or gives pages their place. Answers whether it is done, and if not how the entry reads now.
  function Pages.purge(S, entry, budget)
    local what, number, id, cursor = string.match(entry, '^(%a):(%d+):(%d+):?(%d*)$')
    local book = {pages = S.b .. K.pages .. number, due = S.b .. K.page_due .. number}
    local lane = Lane.by_id(S, id)
    if what == 'p' then call('UNLINK', S.b .. K.page_texts .. number) end
    if what == 'r' then
      local present = lane and lane.records and Due.book(S, lane)
      if not present or present.due ~= book.due then return true end
      cursor = Due.place(S, lane, book, cursor, budget)
      return cursor == '0', 'r:' .. number .. ':' .. id .. ':' .. cursor
    end
    local names = call('ZRANGE', book.due, 0, budget - 1)
    if #names == 0 then
      -- What is left is queued or in progress, and known by nothing but its place in the queue.
      local page = call('HSCAN', book.pages, '0', 'COUNT', budget)
      for i = 1, #page[2], 2 do names[#names + 1] = page[2][i] end
      if #names > 0 then call_chunked('HDEL', book.pages, names) end
      return call('EXISTS', book.pages) == 0
    end
    local moved, dropped = 0, 0
    for i, raw in ipairs(read_many(book.pages, names)) do
      if raw and byte(raw) == FOUND and lane and lane.closed then
        -- It goes with the rest of its lane.
        dropped = dropped + 1
      elseif raw and byte(raw) == FOUND and lane then
        local priority, host, payload = Page.request(raw)
        Queue.push(S, lane, priority, host, {'\0' .. names[i] .. payload})
        moved = moved + 1
      end
    end
    call_chunked('HDEL', book.pages, names)
    call_chunked('ZREM', book.due, names)
    if moved + dropped > 0 then
      count(S, lane.f.q, moved)
      count(S, lane.id .. '|w', -moved - dropped)
      count(S, lane.f.open, -dropped)
    end
    return call('EXISTS', book.pages) == 0
  end

  local function hex(bytes)
    return (string.gsub(bytes, '.', function(c) return format('%02x', byte(c)) end))
  end

  -- What people read of a page: flat, bytes in hexadecimal; and its first record.
  function Pages.shown(lane, name, raw, score)
    local p, at = Page.read(raw), Due.at(score)
    -- The lane has stopped to visit its pages again.
    if p.state > SCHEDULED and p.interval > 0 and not lane.records.revisit then p.interval, at = 0, 0 end
    return {
      lane.name, hex(name), p.state, p.first, p.last, p.since, p.interval, p.version, p.status, hex(p.signature), p.changes, p.misses, p.priority,
      hex(p.trail), p.host, at,
    }, '\0' .. name .. p.payload
  end
end
