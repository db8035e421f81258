-- Pages whose lists say when they changed: such a page is fetched again when the text that leads to it is another one than that of its last
-- fetch.
--
-- The last byte of a text's digest is 0, or says in which pass over a first page and its page turns a page turn was found. So a page turn is
-- fetched again in each pass, also where the first page has a text that it had before; 0 stands for any pass.
--
-- A request with a text has a record of kind 6, which holds the text's digest. `page_texts`, beside the memory of a lane, is a hash: fingerprint (8
-- bytes) -> digest of the last fetch that ended (NONE: none has), and while such a request is queued or in a worker's hands also the digest of
-- that one. A rolling memory has a hash for each generation. `newer`, a hash per group, has the requests that came meanwhile with another text:
-- fingerprint -> lane name -> {host, priority, due ms, entry, record}, the last of each lane. One of these takes the place of the request that is
-- under way when that is leased for the first time, or is added when it has ended. So a page is under way once, and what a list said last
-- is not lost. meta's `tx` is 1 as soon as a partition knows of a text: without one, nothing here costs anything.

local Changed = {}

local queue_newer -- enqueue.lua

do
  local NONE = '\0\0\0\0\0\0\0\0'
  local KIND = 6
  local HOST, PRIORITY, DUE, ENTRY_TEXT, RECORD = 1, 2, 3, 4, 5

  -- The text's digest in a first record; nil: it has none.
  function Changed.text(first)
    return byte(first) == KIND and sub(first, 10, 17) or nil
  end

  -- A first record as workers get it, without its text.
  function Changed.plain(first)
    if byte(first) ~= KIND then return first end
    return '\0' .. sub(first, 2, 9) .. sub(first, 18)
  end

  -- A first record with a text; `text` is '' where there is none.
  function Changed.record(name, text, payload)
    return (text == '' and '\0' or '\6') .. name .. text .. payload
  end

  -- Whether two digests are of one text, and of one pass where both name theirs.
  local function same(a, b)
    return a == b or sub(a, 1, 7) == sub(b, 1, 7) and (byte(a, 8) == 0 or byte(b, 8) == 0)
  end

  local function generation_key(book, g)
    return g and book.page_texts .. ':' .. g or book.page_texts
  end

  -- What is known of a page: the digest of its last fetch, that of what is under way ('': nothing is), and whether the newest generation
  -- does not have them.
  local function read(book, name)
    local value, old = nil, false
    if not book.g then
      value = call('HGET', book.page_texts, name)
    else
      for g = book.g, book.from, -1 do
        value = call('HGET', generation_key(book, g), name)
        if value then
          old = g < book.g
          break
        end
      end
    end
    if not value then return NONE, '', false end
    return sub(value, 1, 8), sub(value, 9), old
  end

  local function write(S, book, name, value)
    if book.g and book.written < book.g then book.written, book.changed = book.g, true end
    call('HSET', generation_key(book, book.g), name, value)
    S.m.tx = 1
  end

  local function remove(book, name)
    if not book.g then return call('HDEL', book.page_texts, name) end
    for g = book.g, book.from, -1 do call('HDEL', generation_key(book, g), name) end
  end

  -- The text with which a page is under way; '': with none, or it is not.
  function Changed.under_way(S, book, name)
    if S.m.tx == 0 then return '' end
    local _, text = read(book, name)
    return text
  end

  -- Whether anything is known of the texts of pages.
  function Changed.kept(book)
    for g = book.g or 0, book.g and book.from or 0, -1 do
      if call('EXISTS', generation_key(book, book.g and g)) == 1 then return true end
    end
    return false
  end

  -- Whether this text is another one than that of the page's last fetch.
  function Changed.differs(book, name, text)
    local last = read(book, name)
    return not same(last, text)
  end

  -- Whether the page is under way with this text.
  function Changed.is_under_way(text, under_way)
    return under_way ~= '' and same(text, under_way)
  end

  -- The page is queued with this text.
  function Changed.queued(S, book, name, text)
    write(S, book, name, read(book, name) .. text)
  end

  -- Whether a page is to be queued for this text: true, and noted as queued; nil: when the request ends that is under way; false: not at all.
  -- `is_new`: the memory did not know it.
  function Changed.wanted(S, book, name, text, is_new)
    local last, under_way, old = read(book, name)
    if not is_new then
      if same(text, under_way == '' and last or under_way) then
        if old and book.policy.kind == 'hits' then write(S, book, name, last .. under_way) end
        return false
      end
      if under_way ~= '' then return nil end
    end
    write(S, book, name, last .. text)
    return true
  end

  -- A request of the page waits until the one that is under way has ended.
  function Changed.wait(S, lane, g, entry, record)
    local key, name = S.b .. K.newer .. lane.group, sub(record, 2, 9)
    local raw = call('HGET', key, name)
    local waiting, due = raw and unpack_msg(raw) or {}, g[BATCH.delay] > 0 and S.now + g[BATCH.delay] or 0
    waiting[lane.name] = {g[BATCH.host], g[BATCH.priority], due, entry, record}
    call('HSET', key, name, pack(waiting))
    S.m.tx = 1
    journal(S, {lane.name, g[BATCH.host], g[BATCH.priority], record, due > 0 and due or nil})
  end

  -- A request with a text is leased for the first time: answers its record, or that of the one that waits for its end.
  function Changed.newest(S, lane, host, book, first)
    local key, name = S.b .. K.newer .. lane.group, sub(first, 2, 9)
    local raw = call('HGET', key, name)
    if not raw then return first end
    local waiting = unpack_msg(raw)
    local one = waiting[lane.name]
    if not one or one[HOST] ~= host or one[DUE] > S.now then return first end
    waiting[lane.name] = nil
    if next(waiting) then call('HSET', key, name, pack(waiting)) else call('HDEL', key, name) end
    Changed.queued(S, book, name, Changed.text(one[RECORD]))
    return one[RECORD]
  end

  -- A request of the page has ended, with this text (nil: it had none). What waited for that is queued where its text still differs.
  function Changed.ended(S, lane, book, name, text)
    if text and book then
      local _, under_way = read(book, name)
      write(S, book, name, under_way == text and text or text .. under_way)
    end
    local key = S.b .. K.newer .. lane.group
    local raw = call('HGET', key, name)
    if not raw then return end
    call('HDEL', key, name)
    for lane_name, one in pairs(unpack_msg(raw)) do
      local delay = max(0, one[DUE] - S.now)
      queue_newer(S, {lane_name, one[HOST], one[PRIORITY], delay, {one[ENTRY_TEXT]}, {#one[RECORD]}}, one[RECORD])
    end
  end

  -- The last fetch of the page does not count: any text is another one. Answers whether its text was known.
  function Changed.unsettled(S, book, name)
    local last, under_way = read(book, name)
    if last == NONE then return false end
    write(S, book, name, NONE .. under_way)
    return true
  end

  -- The page is new again, with all that waits for it.
  function Changed.dropped(S, lane, book, name)
    if S.m.tx == 0 then return end
    remove(book, name)
    call('HDEL', S.b .. K.newer .. lane.group, name)
  end

  -- A part of what is known, for a snapshot: answers where to go on ('': nowhere), and of each page its fingerprint, the digest of its last fetch
  -- and that of what is under way (NONE: none).
  function Changed.scan(book, cursor, limit)
    local g, at = string.match(cursor, '^(%d+)%.(%d+)$')
    g, at = tonumber(g) or book.from or 0, at or '0'
    local page = call('HSCAN', generation_key(book, book.g and g), at, 'COUNT', limit)
    local out = {}
    for i = 1, #page[2], 2 do
      local under_way = sub(page[2][i + 1], 9)
      out[#out + 1] = page[2][i] .. sub(page[2][i + 1], 1, 8) .. (under_way == '' and NONE or under_way)
    end
    if page[1] ~= '0' then return g .. '.' .. page[1], out end
    return book.g and g < book.g and (g + 1) .. '.0' or '', out
  end

  -- What waits in a group, for a snapshot: as `scan` has it.
  function Changed.scan_waiting(S, group, cursor, limit, heads, records)
    local page = call('HSCAN', S.b .. K.newer .. group, cursor, 'COUNT', limit)
    for i = 2, #page[2], 2 do
      for lane_name, one in pairs(unpack_msg(page[2][i])) do
        heads[#heads + 1] = {lane_name, one[HOST], one[PRIORITY], one[DUE], 0, 0, 0}
        records[#records + 1] = one[RECORD]
      end
    end
    return page[1] == '0' and '' or page[1]
  end

  -- A page of a snapshot, as `scan` has it. What is known here stays. `waits`: the page is one that waits to be queued.
  function Changed.restore(S, book, name, last, under_way, waits)
    local own, own_under_way = read(book, name)
    if own ~= NONE then last = own end
    if own_under_way ~= '' or not waits or under_way == NONE then under_way = own_under_way end
    if last ~= NONE or under_way ~= '' then write(S, book, name, last .. under_way) end
  end

  -- The pages have gone from the memory.
  function Changed.forget(S, book, names)
    if S.m.tx > 0 and #names > 0 then
      for _, name in ipairs(names) do remove(book, name) end
    end
  end
end
