-- What is forgotten: requests that are dropped become new again, and a memory goes when no lane uses it.

-- The fingerprint of a record as a memory has it: the signed decimal text of its 64 bits. In two parts, each exact in a double.
local function fp_text(first)
  local _, high, low = struct.unpack('>BI4I4', first)
  local sign = ''
  if high >= 2147483648 then sign, high, low = '-', 4294967295 - high, 4294967296 - low end
  -- 2^32 = 4294 * 10^6 + 967296
  local tail = high * 967296 + low
  local head = high * 4294 + floor(tail / 1000000)
  if head == 0 then return sign .. format('%d', tail) end
  return sign .. format('%d%06d', head, tail % 1000000)
end

-- The fingerprint that was marked when this record was queued, or nil: unfiltered ones were not.
local function marked(record)
  if not sound(record) then return nil end
  local _, _, _, first = parts(record)
  return byte(first) ~= 2 and fp_text(first) or nil
end

-- Records of a lane were dropped before they were fetched: the lane's memory forgets them.
function Seen.unmark(S, lane, records)
  if lane.records then return Pages.dropped(S, lane, records) end
  local book = #records > 0 and Seen.of(S, lane)
  if not book then return end
  for _, record in ipairs(records) do
    local fp = marked(record)
    if fp then
      book.kind.forget(book, fp)
      local _, _, _, first = parts(record)
      if Changed.text(first) then Changed.dropped(S, lane, book, sub(first, 2, 9)) end
    end
  end
end

-- A record comes back into its lane: queued is seen, also where the memory has forgotten it meanwhile. False where its page is under way, with
-- whatever text.
function Seen.mark(S, lane, record)
  local fp = marked(record)
  local book = fp and Seen.of(S, lane)
  if not book then return true end
  local text, name = Changed.text(record), sub(record, 2, 9)
  if text and not lane.records then
    if Changed.under_way(S, book, name) ~= '' then return false end
    Changed.queued(S, book, name, text)
  end
  book.kind.add(book, fp)
  return true
end

-- What is known of the pages of a lane: its records, or its memory; nil: nothing is.
function Seen.holder(S, lane)
  if lane.records then return Due.book(S, lane) end
  return Seen.of(S, lane)
end

-- A lane of the group has gone, or has another policy: if it was the last to use this memory, `purge` will unlink it. To be
-- said when lanes are as they shall be.
function Seen.leave(S, group, policy)
  if policy.scope == 'never' then return end
  for _, id in ipairs(Lane.ids(S, group)) do
    local lane = Lane.by_id(S, id)
    if lane and lane.seen.spec == policy.spec then return end
  end
  local name = Seen.name(S, group, policy)
  local number = call('HGET', S.b .. K.seen_names, name)
  if not number then return end
  call('HDEL', S.b .. K.seen_names, name)
  call('RPUSH', S.b .. K.purge, number)
end
