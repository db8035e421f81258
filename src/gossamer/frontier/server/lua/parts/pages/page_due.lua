-- What is due: which pages of a lane with records are to be visited and when, how they come into its queue, and which records go where
-- they are bounded.
--
-- `page_due` is a sorted set: fingerprint by when it is due (ms). Where the lane bounds its records, also those that are never due, by
-- NEVER + since, and those that are gone, by PAST + since. A page that is queued or in a worker's hands stands in the hash only, so none can be
-- queued twice. `feeds` orders lane ids by when the first page may be due, and meta's `due` is the first of all (0: none).
--
-- While a planner feeds the queues, pages that are found wait (FOUND) until `feed` moves them. Without one they are queued at once, and
-- what falls due is moved by the exchanges of workers. meta's `fu` is until when a planner feeds: as long as the one leads that called
-- `feed` last.

local Due = {}

do
  local FOUND, SCHEDULED, FINISHED, GONE = Page.FOUND, Page.SCHEDULED, Page.FINISHED, Page.GONE
  local NEVER, PAST = 1e15, 2e15
  local SLACK = 0.999       -- pages found in one call are due in their order, within its millisecond
  local FEED_LANES = 8      -- lanes looked at per call
  local FULL_LOOK = 1000    -- ms until a lane is looked at again that has no room
  local AHEAD = 10000       -- requests that are queued in a lane, at most, when workers' exchanges move what is due
  local TRIM_MORE = 16
  local FOR_GOOD = 3650 * 86400000 -- the longest interval (ms): visits were put off for good

  -- The keys of a lane's records; nil where it keeps none.
  function Due.book(S, lane)
    local books = S.config.books
    if not books then
      books = {}
      S.config.books = books
    end
    local book = books[lane.id]
    if not book then
      local number = call('HGET', S.b .. K.recorded, lane.id)
      if not number then return nil end
      book = {pages = S.b .. K.pages .. number, due = S.b .. K.page_due .. number, page_texts = S.b .. K.page_texts .. number}
      books[lane.id] = book
    end
    return book
  end

  -- The round of a group: the version of the seeds that lead to its pages.
  function Due.version(S, group)
    S.versions = S.versions or {}
    local version = S.versions[group]
    if not version then
      version = tonumber(call('HGET', S.b .. K.rounds, group)) or 0
      S.versions[group] = version
    end
    return version
  end

  -- Until when a planner feeds; 0: none does.
  local function fed_until(S)
    if not Leader.present(S) then return 0 end
    if not S.fed_until then S.fed_until = tonumber(call('HGET', S.b .. K.meta, 'fu')) or 0 end
    return S.fed_until
  end

  function Due.is_fed(S)
    return fed_until(S) > S.now
  end

  -- The leader feeds from now on, for as long as it leads.
  function Due.feeder(S)
    call('HSET', S.b .. K.meta, 'fu', format('%d', S.m.leader_until))
  end

  -- A page of the lane falls due then.
  function Due.falls(S, lane, at)
    if at >= NEVER then return end
    call('ZADD', S.b .. K.feeds, 'LT', at, lane.id)
    if S.m.due == 0 or at < S.m.due then S.m.due = at end
  end

  -- flat: score, name, ... of pages of a lane; `first` the least score.
  function Due.put(S, lane, book, flat, first)
    if #flat == 0 then return end
    call_chunked('ZADD', book.due, flat)
    Due.falls(S, lane, first)
  end

  function Due.bounded(rules)
    return rules.max_pages > 0 or rules.max_age > 0
  end

  -- Where a page stands that nothing but a link leads to, or that is gone; nil: nowhere.
  function Due.rest(rules, state, since)
    return Due.bounded(rules) and (state == GONE and PAST or NEVER) + since or nil
  end

  -- When a page is due that stands there (ms); 0: never.
  function Due.at(score)
    return score and score < NEVER and floor(score) or 0
  end

  -- Removes some of the records that are too many or too old, more than this call has brought. What waits or is in progress stays.
  function Due.trim(S, lane, book, brought)
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
          local later = call('ZREVRANGEBYSCORE', book.due, '(' .. NEVER, '(' .. (S.now + 1), 'LIMIT', 0, over - #names)
          for i, raw in ipairs(#later > 0 and read_many(book.pages, later) or {}) do
            -- One that was found and is delayed waits, too.
            if raw and byte(raw) > SCHEDULED then names[#names + 1] = later[i] end
          end
        end
        for _, name in ipairs(names) do gone[#gone + 1] = name end
      end
    end
    if #gone > 0 then
      call_chunked('HDEL', book.pages, gone)
      call_chunked('ZREM', book.due, gone)
      Changed.forget(S, book, gone)
    end
  end

  -- How many more the lane takes: as producers are bound, found pages aside, for these are what it is asked for; and `most` queued or
  -- delayed, if given.
  local function room(S, lane, most)
    local left, group = huge, Lane.group(S, lane.group)
    if lane.max_queued > 0 then most = min(most or huge, lane.max_queued) end
    if most then left = most - count_now(S, lane.f.q) - count_now(S, lane.id .. '|d') end
    if group and group.max_queued > 0 then
      local queued = 0
      for _, id in ipairs(Lane.ids(S, lane.group)) do queued = queued + count_now(S, id .. '|q') + count_now(S, id .. '|d') end
      left = min(left, group.max_queued - queued)
    end
    return left
  end

  -- Moves up to n pages that are due into the queue: the oldest first, in LIFO lanes the newest. Answers how many.
  function Due.feed(S, lane, n, most)
    local book = Due.book(S, lane)
    n = min(n, room(S, lane, most))
    if n <= 0 or lane.closed then return 0 end
    local names
    if lane.lifo then
      names = call('ZREVRANGEBYSCORE', book.due, S.now + SLACK, '-inf', 'LIMIT', 0, n)
    else
      names = call('ZRANGEBYSCORE', book.due, '-inf', S.now + SLACK, 'LIMIT', 0, n)
    end
    if #names == 0 then return 0 end
    local set, again, moved, found, version = {}, {}, 0, 0, Due.version(S, lane.group)
    local raws = read_many(book.pages, names)
    for i, name in ipairs(names) do
      local raw = raws[i]
      local p = raw and byte(raw) > SCHEDULED and not lane.records.revisit and Page.read(raw)
      if p and p.interval > 0 then
        -- The lane has stopped to visit its pages again.
        p.interval = 0
        local at = Due.rest(lane.records, p.state, p.since)
        if at then
          again[#again + 1] = at
          again[#again + 1] = name
        end
        set[#set + 1] = name
        set[#set + 1] = Page.write(p)
      elseif raw then
        local first = byte(raw) == FOUND
        if first then found = found + 1 end
        moved = moved + 1
        set[#set + 1] = name
        set[#set + 1] = Page.again(S, raw, SCHEDULED, 'due', version)
        local priority, host, payload = Page.request(raw)
        Queue.push(S, lane, priority, host, {first and Changed.record(name, Changed.under_way(S, book, name), payload) or '\4' .. name .. payload})
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

  -- When any lane is to be looked at again; to be called after their places in `feeds` have changed.
  function Due.next_look(S)
    S.m.due = tonumber(call('ZRANGE', S.b .. K.feeds, 0, 0, 'WITHSCORES')[2]) or 0
  end

  -- Without a planner: pages that are due go into their queues, a bounded number at a time.
  function Due.feed_due(S)
    if S.m.due > S.now + SLACK or Due.is_fed(S) then return end
    if memory_full(S) then
      S.m.due = S.now + FULL_LOOK
      return
    end
    local budget = RECLAIM_MAX
    for _, id in ipairs(call('ZRANGEBYSCORE', S.b .. K.feeds, '-inf', S.now + SLACK, 'LIMIT', 0, FEED_LANES)) do
      local lane = Lane.by_id(S, id)
      local book = lane and lane.records and Due.book(S, lane)
      if not book then
        call('ZREM', S.b .. K.feeds, id)
      elseif lane.closed then
        call('ZADD', S.b .. K.feeds, S.now + FULL_LOOK, id)
      elseif budget > 0 then
        budget = budget - Due.feed(S, lane, budget, AHEAD)
        look_at(S, lane, book, AHEAD)
      end
    end
    Due.next_look(S)
  end

  -- When a page may be due that a worker's exchange would move; nil: none is known to be.
  function Due.ready_at(S)
    if S.m.due == 0 then return nil end
    return max(ceil(S.m.due), fed_until(S))
  end

  -- The lanes that may have due pages, also those that have no room: id -> when to look at them.
  function Due.lanes(S)
    return flat_table(call('ZRANGEBYSCORE', S.b .. K.feeds, '-inf', S.now + FULL_LOOK, 'WITHSCORES'))
  end

  -- How many pages are due that were not moved.
  function Due.count(S, lane)
    return call('ZCOUNT', Due.book(S, lane).due, '-inf', S.now + SLACK)
  end

  -- The same after `feed`.
  function Due.left(S, lane)
    look_at(S, lane, Due.book(S, lane))
    return Due.count(S, lane)
  end

  -- When the first page of the lane is due (ms); 0: none is.
  function Due.first(S, book)
    return Due.at(tonumber(call('ZRANGE', book.due, 0, 0, 'WITHSCORES')[2]))
  end

  -- The interval of a page that was visited by other rules.
  local function interval_by(revisit, p)
    if p.state == FINISHED and not revisit.adaptive then return revisit.every end
    -- Its layer was gone from the file: nothing is known of how often it changes or fails.
    if p.interval >= FOR_GOOD then return min(max(revisit.every, revisit.low), revisit.high) end
    return min(max(p.interval, revisit.low), max(revisit.high, revisit.every))
  end

  -- Pages that were only kept are to be visited again, each when it would have been, or are bounded now; or their visits come sooner than they
  -- did. Answers where to go on; '0': all have their place.
  function Due.place(S, lane, book, cursor, budget)
    local rules = lane.records
    local revisit = rules.revisit
    local page = call('HSCAN', book.pages, cursor, 'COUNT', budget)
    local set, due, first = {}, {}, huge
    for i = 1, #page[2], 2 do
      local name, raw = page[2][i], page[2][i + 1]
      local score = byte(raw) > SCHEDULED and (tonumber(call('ZSCORE', book.due, name)) or NEVER)
      local p = score and Page.read(raw)
      if p and score < NEVER then
        local interval = revisit and p.interval > 0 and interval_by(revisit, p)
        if interval and p.since + interval < score then
          p.interval = interval
          set[#set + 1] = name
          set[#set + 1] = Page.write(p)
          due[#due + 1] = p.since + interval
          due[#due + 1] = name
          first = min(first, p.since + interval)
        end
      elseif p then
        local at = Due.rest(rules, p.state, p.since)
        if revisit and p.state ~= GONE then
          p.interval = min(max(revisit.every, revisit.low), revisit.high)
          at = p.since + p.interval
          set[#set + 1] = name
          set[#set + 1] = Page.write(p)
        end
        if at then
          due[#due + 1] = at
          due[#due + 1] = name
          if at < first then first = at end
        end
      end
    end
    if #set > 0 then call_chunked('HSET', book.pages, set) end
    Due.put(S, lane, book, due, first)
    return page[1]
  end
end
