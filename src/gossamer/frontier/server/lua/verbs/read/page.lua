-- page: the records of some pages of a lane; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {lane, fingerprints[] (signed decimal texts)}
-- Returns {msgpack {now, heads[] (as `pages` has them; false where there is no record)}, first record of each ('' where there is none)...}
-- Cost    O(fingerprints)

verb('page', {'no-writes'}, function(S, h)
  local lane = Lane.by_name(S, h.lane)
  if not lane then return fail('NOLANE', h.lane) end
  local book, heads, records = lane.records and Due.book(S, lane), {}, {''}
  for i, fp in ipairs(h.fps) do
    local name = Pages.name(fp)
    local raw = book and call('HGET', book.pages, name)
    if raw then
      heads[i], records[i + 1] = Pages.shown(lane, name, raw, tonumber(call('ZSCORE', book.due, name)))
    else
      heads[i], records[i + 1] = false, ''
    end
  end
  records[1] = pack({S.now, heads})
  return records
end)
