-- pages: pages through the records of a lane; read only. What is there all the while is read at least once.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {lane, cursor ('0' to begin), limit, state (found|scheduled|finished|failed|gone, '' for all)}
-- Returns {msgpack {cursor ('' at the end), now, heads[] {lane, fingerprint, state, first, last, since, interval (ms), version, status,
--            signature, changes, misses, priority, trail, host, due ms or 0; bytes in hexadecimal}}, first record of each...}
-- Cost    O(limit)

local STATES = {'found', 'scheduled', 'finished', 'failed', 'gone'}

verb('pages', {'no-writes'}, function(S, h)
  local lane = Lane.by_name(S, h.lane)
  if not lane then return fail('NOLANE', h.lane) end
  local book, heads, records = lane.records and Due.book(S, lane), {}, {''}
  if not book then return {pack({'', S.now, heads})} end
  local page = call('HSCAN', book.pages, h.cursor, 'COUNT', h.limit)
  for i = 1, #page[2], 2 do
    local name, raw = page[2][i], page[2][i + 1]
    if h.state == '' or STATES[byte(raw)] == h.state then
      heads[#heads + 1], records[#records + 1] = Pages.shown(lane, name, raw, tonumber(call('ZSCORE', book.due, name)))
    end
  end
  records[1] = pack({page[1] == '0' and '' or page[1], S.now, heads})
  return records
end)
