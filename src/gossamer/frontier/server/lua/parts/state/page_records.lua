-- Page records: what is known of every page of a lane that keeps records, and when it is due. They are the memory of such a lane.
--
-- `pages` is a hash per lane with records: fingerprint (8 bytes) -> record. `page_due` is a sorted set: fingerprint by when it is due
-- (ms). Where the lane bounds its records, also those that are never due, by NEVER + since, and those that are gone, by PAST + since.
-- A page that is queued or in a worker's hands stands in the hash only, so none can be queued twice. `recorded` maps lane id -> number of its two keys; `feeds` orders lane ids by when
-- the first page may be due, and meta's `due` is the first of all (0: none).
--
-- While a planner feeds the queues, pages that are found wait (FOUND) until `feed` moves them. Without one they are queued at once, and
-- what falls due is moved by the exchanges of workers. meta's `fu` is until when a planner feeds: as long as the one leads that called
-- `feed` last.

local Pages = {}

do
  local FOUND, SCHEDULED, FINISHED, FAILED, GONE = 1, 2, 3, 4, 5
  local NEVER, PAST = 1e15, 2e15
  local SLACK = 0.999       -- pages found in one call are due in their order, within its millisecond
  local TRAIL = 8           -- events kept
  local FEED_LANES = 8      -- lanes looked at per call
  local FULL_LOOK = 1000    -- ms until a lane is looked at again that has no room
  local AHEAD = 10000       -- requests that are queued in a lane, at most, when workers' exchanges move what is due
  local TRIM_MORE = 16
  local SHRINK, GROW = 0.5, 1.5
  -- Events of the trail. Those of visits say how they ended.
  local EVENT = {found = 1, due = 2, sighted = 3, read = 4, changed = 5, unchanged = 6, missing = 7, failed = 8, replaced = 9, dropped = 10}

  -- state, first, last visit (0: none), since when in this state, interval (ms all), version, status, signature, changes, misses,
  -- priority, trail (5 bytes each: event, seconds); then the tail: host and payload.
  local FORM = '>BI6I6I6I5I4I2c8I2Bi4Bc0'
  local NO_SIGNATURE = '\0\0\0\0\0\0\0\0'

  local function read_page(raw)
    local state, first, last, since, interval, version, status, signature, changes, misses, priority, trail, rest =
      struct.unpack(FORM, raw)
    return {
      state = state, first = first, last = last, since = since, interval = interval, version = version, status = status,
      signature = signature, changes = changes, misses = misses, priority = priority, trail = trail, tail = sub(raw, rest),
    }
  end

  local function write_page(p)
    return struct.pack(FORM, p.state, p.first, p.last, p.since, p.interval, p.version, p.status, p.signature, min(p.changes, 65535),
      min(p.misses, 255), p.priority, #p.trail, p.trail) .. p.tail
  end

  local function tail_of(host, payload)
    return struct.pack('>I2c0', #host, host) .. payload
  end

  -- The host of a page, and its payload.
  local function split(p)
    local host, rest = struct.unpack('>I2c0', p.tail)
    return host, sub(p.tail, rest)
  end

  local function event(S, kind)
    return struct.pack('>BI4', kind, floor(S.now / 1000))
  end

  local function new_page(S, state, version, priority, host, payload)
    return struct.pack(FORM, state, S.now, 0, S.now, 0, version, 0, NO_SIGNATURE, 0, 0, priority, 5, event(S, EVENT.found))
      .. tail_of(host, payload)
  end

  local function turn(S, p, state, kind)
    p.state, p.since, p.trail = state, S.now, sub(p.trail, -5 * (TRAIL - 1)) .. event(S, kind)
  end

  -- The keys of a lane's records; nil where it keeps none.
  function Pages.of(S, lane)
    local books = S.config.books
    if not books then
      books = {}
      S.config.books = books
    end
    local book = books[lane.id]
    if not book then
      local number = call('HGET', S.b .. K.recorded, lane.id)
      if not number then return nil end
      book = {pages = S.b .. K.pages .. number, due = S.b .. K.page_due .. number}
      books[lane.id] = book
    end
    return book
  end

  -- Until when a planner feeds; 0: none does.
  local function fed_until(S)
    if not Leader.present(S) then return 0 end
    if not S.fed_until then S.fed_until = tonumber(call('HGET', S.b .. K.meta, 'fu')) or 0 end
    return S.fed_until
  end

  local function is_fed(S)
    return fed_until(S) > S.now
  end

  -- The leader feeds from now on, for as long as it leads.
  function Pages.feeder(S)
    call('HSET', S.b .. K.meta, 'fu', format('%d', S.m.leader_until))
  end

  local function version_of(S, group)
    S.versions = S.versions or {}
    local version = S.versions[group]
    if not version then
      version = tonumber(call('HGET', S.b .. K.rounds, group)) or 0
      S.versions[group] = version
    end
    return version
  end

  -- A page of the lane falls due then.
  local function falls_due(S, lane, at)
    if at >= NEVER then return end
    call('ZADD', S.b .. K.feeds, 'LT', at, lane.id)
    if S.m.due == 0 or at < S.m.due then S.m.due = at end
  end

  -- flat: score, name, ... of pages of a lane; `first` the least score.
  local function put_due(S, lane, book, flat, first)
    if #flat == 0 then return end
    call_chunked('ZADD', book.due, flat)
    falls_due(S, lane, first)
  end

  local function is_bounded(rules)
    return rules.max_pages > 0 or rules.max_age > 0
  end

  -- Where a page stands that nothing but a link leads to, or that is gone; nil: nowhere.
  local function rest_score(rules, p)
    return is_bounded(rules) and (p.state == GONE and PAST or NEVER) + p.since or nil
  end

  -- Takes away some of the records that are too many or too old, more than this call has brought. What waits or is in progress stays.
  local function trim(S, lane, book, brought)
    local rules, most = lane.records, 2 * brought + TRIM_MORE
    local gone = {}
    if rules.max_age > 0 then
      for _, from in ipairs({NEVER, PAST}) do
        for _, name in ipairs(call('ZRANGEBYSCORE', book.due, from, from + S.now - rules.max_age, 'LIMIT', 0, most)) do
          gone[#gone + 1] = name
        end
      end
    end
    if rules.max_pages > 0 then
      local over = min(call('HLEN', book.pages) - #gone - rules.max_pages, most)
      if over > 0 then
        local names = call('ZRANGEBYSCORE', book.due, NEVER, '+inf', 'LIMIT', #gone, over)
        -- Then those whose next visit is the furthest away.
        if #names < over then
          for _, name in ipairs(call('ZREVRANGEBYSCORE', book.due, '(' .. NEVER, '(' .. (S.now + 1), 'LIMIT', 0, over - #names)) do
            names[#names + 1] = name
          end
        end
        for _, name in ipairs(names) do gone[#gone + 1] = name end
      end
    end
    if #gone > 0 then
      call_chunked('HDEL', book.pages, gone)
      call_chunked('ZREM', book.due, gone)
    end
  end

  -- When a page that a link leads to again is wanted: ms, 0 for now, nil for not at all or not before it is due anyway. `raw` is neither
  -- queued nor waiting.
  local function wanted(S, rules, raw, version)
    local state = byte(raw)
    local after = state == FINISHED and rules.finished or state == FAILED and rules.failed or state == GONE and rules.gone
    if not after and not (rules.newer and state == FINISHED) then return nil end
    local _, _, _, since, interval, old = struct.unpack('>BI6I6I6I5I4', raw)
    if rules.newer and state == FINISHED and version > old then return 0 end
    if not after then return nil end
    if since + after <= S.now then return 0 end
    return (interval == 0 or after < interval) and since + after or nil
  end

  -- Requests of one place in the queue, in a lane with records (see Enqueue.add). Answers letters, the records to be queued, how many
  -- are duplicates, how many were found and wait for the planner, and where the next record begins.
  function Pages.sift(S, lane, g, blob, at, limit, refused, keyed_before)
    local entries, lengths, n = g[BATCH.entries], g[BATCH.lengths], #g[BATCH.entries]
    local book, rules, version = Pages.of(S, lane), lane.records, version_of(S, lane.group)
    local starts, names, asked = {}, {}, {}
    for i = 1, n do
      local kind = byte(entries[i])
      starts[i] = at
      if kind and kind ~= 107 then
        local name = sub(blob, at + 1, at + 8)
        names[i], asked[#asked + 1] = name, name
      end
      at = at + lengths[i]
    end
    local known = {}
    if #asked > 0 then
      for i, raw in ipairs(read_many(book.pages, asked)) do known[asked[i]] = raw end
    end
    local letters, records, set, due, back, first, taken, found, duplicates = {}, {}, {}, {}, {}, huge, 0, 0, 0
    local later, soonest = {'LT'}, huge
    local waits, host, priority = is_fed(S), g[BATCH.host], g[BATCH.priority]
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
        local raw, value = known[name], nil
        if not raw then
          value = new_page(S, state, version, priority, host, sub(blob, starts[i] + 9, stop))
        elseif byte(raw) <= SCHEDULED then
          letter = 'd'
        else
          local when = wanted(S, rules, raw, version)
          if when == 0 then
            local p = read_page(raw)
            turn(S, p, state, EVENT.sighted)
            p.version, p.priority, p.tail = version, priority, tail_of(host, sub(blob, starts[i] + 9, stop))
            value = write_page(p)
            if not waits then back[#back + 1] = name end
          else
            letter = 'd'
            if when then
              later[#later + 1] = when
              later[#later + 1] = name
              soonest = min(soonest, when)
            end
          end
        end
        if value then
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
      falls_due(S, lane, soonest)
    end
    if #set > 0 then
      call_chunked('HSET', book.pages, set)
      if #back > 0 then call_chunked('ZREM', book.due, back) end
      put_due(S, lane, book, due, first)
      if is_bounded(rules) then trim(S, lane, book, #set / 2) end
    end
    return letters, records, duplicates, found, at
  end

  -- A lease of the lane has ended, and no longer stands for its page. `v` as in `leases`; `visit` what the page was like
  -- {status, signature in two halves} or nil.
  function Pages.ended(S, lane, v, ending, visit)
    local visits = S.visits
    if not visits then
      visits = {}
      S.visits = visits
    end
    local list = visits[lane]
    if not list then
      list = {}
      visits[lane] = list
    end
    list[#list + 1] = {v, ending, visit}
  end

  -- A page was visited: its record, and when it is due (score).
  local function visited(S, rules, p, ending, visit)
    local status, signature = visit and visit[1] or 0, visit and struct.pack('>I4I4', visit[2], visit[3]) or NO_SIGNATURE
    local revisit, was = rules.revisit, p.signature
    p.last, p.status = S.now, status
    if ending == 'failed' then
      turn(S, p, FAILED, EVENT.failed)
      if not revisit then return rest_score(rules, p) end
      -- Later each time, and never given up: its server may be away.
      p.interval = min(2 * max(p.interval, revisit.every), max(revisit.high, revisit.every))
      return S.now + p.interval
    end
    if status == 404 or status == 410 then
      p.misses = p.misses + 1
      local gone = not revisit or p.misses >= revisit.gone
      turn(S, p, gone and GONE or FINISHED, EVENT.missing)
      if gone then
        p.interval = 0
        return rest_score(rules, p)
      end
      p.interval = min(max(p.interval > 0 and p.interval or revisit.every, revisit.low), revisit.high)
      return S.now + p.interval
    end
    local told = status ~= 304 and signature ~= NO_SIGNATURE
    local first = was == NO_SIGNATURE
    local changed = told and not first and signature ~= was
    turn(S, p, FINISHED, ending == 'replaced' and EVENT.replaced or changed and EVENT.changed or (told or status ~= 304) and EVENT.read
      or EVENT.unchanged)
    p.misses = 0
    if told then p.signature = signature end
    if changed then p.changes = p.changes + 1 end
    if not revisit then
      p.interval = 0
      return rest_score(rules, p)
    end
    if not revisit.adaptive then
      p.interval = revisit.every
    elseif first or p.interval == 0 then
      p.interval = min(max(revisit.every, revisit.low), revisit.high)
    else
      p.interval = floor(min(max(p.interval * (changed and SHRINK or GROW), revisit.low), revisit.high) + 0.5)
    end
    return S.now + p.interval
  end

  -- Writes what `Pages.ended` was told of.
  function Pages.flush(S)
    for lane, list in pairs(S.visits) do
      local book = Pages.of(S, lane)
      local names, known = {}, {}
      for i, one in ipairs(list) do names[i] = sub(one[1][LEASE.record], 2, 9) end
      local raws = read_many(book.pages, names)
      local set, due, scores, first = {}, {}, {}, huge
      for i, one in ipairs(list) do
        local v, name = one[1], names[i]
        local decides, raw = byte(v[LEASE.record]) == 0, known[name] or raws[i]
        local p = raw and read_page(raw)
        if not p then
          -- Queued without a look at the records, or before the lane kept any.
          decides = true
          p = read_page(new_page(S, SCHEDULED, version_of(S, lane.group), v[LEASE.priority], v[LEASE.host], sub(v[LEASE.record], 10)))
        end
        -- Another request for a page that is queued or waits: that one decides.
        if decides or p.state > SCHEDULED then
          local stood = p.state > SCHEDULED
          local at = visited(S, lane.records, p, one[2], one[3])
          known[name] = write_page(p)
          set[#set + 1] = name
          set[#set + 1] = known[name]
          -- The last visit of a page decides; one that stood in `page_due` before may have to leave it.
          if at or stood then scores[name] = at or false end
        end
      end
      if #set > 0 then
        call_chunked('HSET', book.pages, set)
        for name, at in pairs(scores) do
          if at then
            due[#due + 1] = at
            due[#due + 1] = name
            if at < first then first = at end
          else
            call('ZREM', book.due, name)
          end
        end
        put_due(S, lane, book, due, first)
        if is_bounded(lane.records) then trim(S, lane, book, #set / 2) end
      end
    end
    S.visits = nil
  end

  -- How many more the lane takes: as producers are bound, found pages aside, for these are what it is asked for; and `most` queued or
  -- delayed, if given.
  local function room(S, lane, most)
    local left = (most or huge) - count_now(S, lane.id .. '|q') - count_now(S, lane.id .. '|d')
    if lane.max_queued > 0 then left = min(left, lane.max_queued - count_now(S, lane.id .. '|q') - count_now(S, lane.id .. '|d')) end
    local group = Lane.group(S, lane.group)
    if group and group.max_queued > 0 then
      local queued = 0
      for _, id in ipairs(Lane.ids(S, lane.group)) do queued = queued + count_now(S, id .. '|q') + count_now(S, id .. '|d') end
      left = min(left, group.max_queued - queued)
    end
    return left
  end

  -- Moves up to n pages that are due into the queue: the oldest first, in LIFO lanes the newest. Answers how many.
  function Pages.feed(S, lane, n, most)
    local book = Pages.of(S, lane)
    n = min(n, room(S, lane, most))
    if n <= 0 or lane.closed then return 0 end
    local names
    if lane.lifo then
      names = call('ZREVRANGEBYSCORE', book.due, S.now + SLACK, '-inf', 'LIMIT', 0, n)
    else
      names = call('ZRANGEBYSCORE', book.due, '-inf', S.now + SLACK, 'LIMIT', 0, n)
    end
    if #names == 0 then return 0 end
    local set, again, moved, found, version = {}, {}, 0, 0, version_of(S, lane.group)
    local raws = read_many(book.pages, names)
    for i, name in ipairs(names) do
      local p = raws[i] and read_page(raws[i])
      if p and p.state == FINISHED and p.interval > 0 and not lane.records.revisit then
        -- The lane has stopped to visit its pages again.
        p.interval = 0
        if is_bounded(lane.records) then
          again[#again + 1] = NEVER + p.since
          again[#again + 1] = name
        end
        set[#set + 1] = name
        set[#set + 1] = write_page(p)
      elseif p then
        if p.state == FOUND then found = found + 1 end
        turn(S, p, SCHEDULED, EVENT.due)
        p.version, moved = max(p.version, version), moved + 1
        set[#set + 1] = name
        set[#set + 1] = write_page(p)
        local host, payload = split(p)
        Queue.push(S, lane, p.priority, host, {'\0' .. name .. payload})
      end
    end
    call_chunked('ZREM', book.due, names)
    if #again > 0 then call_chunked('ZADD', book.due, again) end
    if #set > 0 then call_chunked('HSET', book.pages, set) end
    count(S, lane.f.q, moved)
    if found > 0 then count(S, lane.id .. '|w', -found) end
    count(S, lane.f.open, moved - found)
    return moved
  end

  -- The lane's place in `feeds` after some of its pages were moved.
  local function look_at(S, lane, book, most)
    local head = call('ZRANGE', book.due, 0, 0, 'WITHSCORES')
    local at = tonumber(head[2])
    if not at or at >= NEVER then
      call('ZREM', S.b .. K.feeds, lane.id)
      return
    end
    if at <= S.now + SLACK and room(S, lane, most) <= 0 then at = S.now + FULL_LOOK end
    call('ZADD', S.b .. K.feeds, at, lane.id)
  end

  local function next_look(S)
    S.m.due = tonumber(call('ZRANGE', S.b .. K.feeds, 0, 0, 'WITHSCORES')[2]) or 0
  end

  -- Without a planner: pages that are due go into their queues, a bounded number at a time.
  function Pages.feed_due(S)
    if S.m.due > S.now + SLACK or is_fed(S) then return end
    if memory_full(S) then
      S.m.due = S.now + FULL_LOOK
      return
    end
    local budget = RECLAIM_MAX
    for _, id in ipairs(call('ZRANGEBYSCORE', S.b .. K.feeds, '-inf', S.now + SLACK, 'LIMIT', 0, FEED_LANES)) do
      local lane = Lane.by_id(S, id)
      local book = lane and lane.records and Pages.of(S, lane)
      if not book then
        call('ZREM', S.b .. K.feeds, id)
      elseif lane.closed then
        call('ZADD', S.b .. K.feeds, S.now + FULL_LOOK, id)
      elseif budget > 0 then
        budget = budget - Pages.feed(S, lane, budget, AHEAD)
        look_at(S, lane, book, AHEAD)
      end
    end
    next_look(S)
  end

  -- When a page may be due that a worker's exchange would move; nil: none is known to be.
  function Pages.ready_at(S)
    if S.m.due == 0 then return nil end
    return max(ceil(S.m.due), fed_until(S))
  end

  -- How many pages are due that were not moved.
  function Pages.due(S, lane)
    return call('ZCOUNT', Pages.of(S, lane).due, '-inf', S.now + SLACK)
  end

  function Pages.left(S, lane)
    look_at(S, lane, Pages.of(S, lane))
    next_look(S)
    return Pages.due(S, lane)
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
    return byte(first) == 0 and sub(first, 2, 9) or nil
  end

  -- Records of the lane were dropped from its queue: one that was never visited is not known any more, another is as it was.
  function Pages.dropped(S, lane, records)
    local book = Pages.of(S, lane)
    for _, record in ipairs(records) do
      local name = name_of(record)
      local raw = name and call('HGET', book.pages, name)
      local p = raw and read_page(raw)
      if p and p.state == SCHEDULED then
        if p.last == 0 then
          call('HDEL', book.pages, name)
        else
          turn(S, p, FINISHED, EVENT.dropped)
          call('HSET', book.pages, name, write_page(p))
          local at = lane.records.revisit and p.interval > 0 and S.now + p.interval or rest_score(lane.records, p)
          if at then put_due(S, lane, book, {at, name}, at) end
        end
      end
    end
  end

  -- A request comes back into the queue of its lane (a dead letter, a snapshot). False where its page is queued or waits already.
  function Pages.queued(S, lane, host, priority, first)
    if byte(first) ~= 0 then return true end
    local book, name = Pages.of(S, lane), sub(first, 2, 9)
    local raw = call('HGET', book.pages, name)
    if raw and byte(raw) <= SCHEDULED then return false end
    if raw then
      local p = read_page(raw)
      turn(S, p, SCHEDULED, EVENT.sighted)
      raw = write_page(p)
    else
      raw = new_page(S, SCHEDULED, version_of(S, lane.group), priority, host, sub(first, 10))
    end
    call('HSET', book.pages, name, raw)
    call('ZREM', book.due, name)
    return true
  end

  -- A request of a snapshot is queued: its page gets a record. False where it has one.
  function Pages.restored(S, lane, host, priority, first)
    local book = Pages.of(S, lane)
    return call('HSETNX', book.pages, sub(first, 2, 9),
      new_page(S, SCHEDULED, version_of(S, lane.group), priority, host, sub(first, 10))) == 1
  end

  -- A record of a snapshot. One that was queued when it was read, and is not now, may have been fetched since, or not: it waits.
  function Pages.restore(S, lane, name, p, host, payload, due)
    local book = Pages.of(S, lane)
    p.tail = tail_of(host, payload)
    local raw = call('HGET', book.pages, name)
    if raw then
      local own = read_page(raw)
      if own.state > SCHEDULED or own.last > 0 or p.last == 0 then return 'k' end
      own.first, own.last, own.interval, own.version = min(own.first, p.first), p.last, p.interval, max(own.version, p.version)
      own.status, own.signature, own.changes, own.misses, own.trail = p.status, p.signature, p.changes, p.misses, p.trail
      call('HSET', book.pages, name, write_page(own))
      return 'k'
    end
    if p.state <= SCHEDULED then
      p.state, due = FOUND, max(due, S.now)
      count(S, lane.id .. '|w', 1)
      count(S, lane.f.open, 1)
    elseif due == 0 then
      due = rest_score(lane.records, p)
    end
    call('HSET', book.pages, name, write_page(p))
    if due then put_due(S, lane, book, {due, name}, due) end
    return 'r'
  end

  -- Whether a page is known; with `forget` it is not any more, unless it is queued or waits.
  function Pages.known(S, lane, text, forget)
    local book, name = Pages.of(S, lane), Pages.name(text)
    local raw = call('HGET', book.pages, name)
    if raw and forget and byte(raw) > SCHEDULED then
      call('HDEL', book.pages, name)
      call('ZREM', book.due, name)
    end
    return raw and true or false
  end

  -- How many found pages wait, how many records there are, and when the first page is due (0: none).
  function Pages.numbers(S, lane)
    local book = Pages.of(S, lane)
    if not book then return {0, 0, 0} end
    local head = call('ZRANGE', book.due, 0, 0, 'WITHSCORES')
    local at = tonumber(head[2]) or NEVER
    return {count_now(S, lane.id .. '|w'), call('HLEN', book.pages), at < NEVER and floor(at) or 0}
  end

  -- From now on a lane keeps records by these rules, or without any no more: `purge` takes those away that it has, and puts pages that
  -- wait into its queue. Where pages were not visited again before, or not bounded, `purge` gives them their place. To be said
  -- before the policy stamp changes.
  function Pages.keep(S, id, rules, before)
    local number = call('HGET', S.b .. K.recorded, id)
    if rules and not number then
      call('HSET', S.b .. K.recorded, id, call('HINCRBY', S.b .. K.meta, 'book', 1))
    elseif rules and (rules.revisit and not (before and before.revisit) or is_bounded(rules) and not (before and is_bounded(before))) then
      call('RPUSH', S.b .. K.purge, 'r:' .. number .. ':' .. id .. ':0')
    elseif not rules and number then
      call('HDEL', S.b .. K.recorded, id)
      call('ZREM', S.b .. K.feeds, id)
      call('RPUSH', S.b .. K.purge, 'p:' .. number .. ':' .. id)
    end
  end

  -- Pages that were only kept are to be visited again, each when it would have been, or are bounded now. Answers where to go on; '0': all
  -- have their place.
  local function place_pages(S, lane, book, cursor, budget)
    local rules = lane.records
    local revisit = rules.revisit
    local page = call('HSCAN', book.pages, cursor, 'COUNT', budget)
    local set, due, first = {}, {}, huge
    for i = 1, #page[2], 2 do
      local name, raw = page[2][i], page[2][i + 1]
      if byte(raw) > SCHEDULED and (tonumber(call('ZSCORE', book.due, name)) or NEVER) >= NEVER then
        local p = read_page(raw)
        local at = rest_score(rules, p)
        if revisit and p.state ~= GONE then
          p.interval = min(max(revisit.every, revisit.low), revisit.high)
          at = p.since + p.interval
          set[#set + 1] = name
          set[#set + 1] = write_page(p)
        end
        if at then
          due[#due + 1] = at
          due[#due + 1] = name
          if at < first then first = at end
        end
      end
    end
    if #set > 0 then call_chunked('HSET', book.pages, set) end
    put_due(S, lane, book, due, first)
    return page[1]
  end

  -- Does a part of what `Pages.keep` has left to do: takes away records of a lane that keeps none any more, where pages that wait are
  -- queued if the lane is still there; or gives pages their place. Answers whether it is done, and if not how the entry reads now.
  function Pages.purge(S, entry, budget)
    local what, number, id, cursor = string.match(entry, '^(%a):(%d+):(%d+):?(%d*)$')
    local book = {pages = S.b .. K.pages .. number, due = S.b .. K.page_due .. number}
    local lane = Lane.by_id(S, id)
    if what == 'r' then
      local present = lane and lane.records and Pages.of(S, lane)
      if not present or present.due ~= book.due then return true end
      cursor = place_pages(S, lane, book, cursor, budget)
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
    local moved = 0
    for i, raw in ipairs(read_many(book.pages, names)) do
      local p = raw and byte(raw) == FOUND and read_page(raw)
      if p and lane and not lane.closed then
        local host, payload = split(p)
        Queue.push(S, lane, p.priority, host, {'\0' .. names[i] .. payload})
        moved = moved + 1
      end
    end
    call_chunked('HDEL', book.pages, names)
    call_chunked('ZREM', book.due, names)
    if moved > 0 then
      count(S, lane.f.q, moved)
      count(S, lane.id .. '|w', -moved)
    end
    return call('EXISTS', book.pages) == 0
  end

  local function hex(bytes)
    return (string.gsub(bytes, '.', function(c) return format('%02x', byte(c)) end))
  end

  -- What people read of a page: flat, bytes in hexadecimal; and its first record.
  function Pages.shown(lane, name, raw, score)
    local p = read_page(raw)
    local host, payload = split(p)
    return {
      lane.name, hex(name), p.state, p.first, p.last, p.since, p.interval, p.version, p.status, hex(p.signature), p.changes, p.misses, p.priority,
      hex(p.trail), host, score and score < NEVER and floor(score) or 0,
    }, '\0' .. name .. payload
  end

  Pages.SCHEDULED, Pages.FOUND = SCHEDULED, FOUND
end
