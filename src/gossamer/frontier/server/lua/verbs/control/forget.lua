-- forget: fingerprints become new again for a lane's memory. With probe they are only looked up.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {lane, fingerprints[], probe}
-- Returns letters: y (was known) or n
-- Cost    O(fingerprints)

verb('forget', {'allow-oom'}, function(S, h)
  local lane = Lane.by_name(S, h.lane)
  if not lane then return fail('NOLANE', h.lane) end
  local book, out = Seen.of(S, lane), {}
  for i, fp in ipairs(h.fps) do
    local known = lane.records and Pages.known(S, lane, fp, not h.probe) or book and (h.probe and book.kind.has(book, fp) or not h.probe and book.kind.forget(book, fp))
    out[i] = known and 'y' or 'n'
  end
  Seen.save(S)
  S.changed = not h.probe
  finish(S)
  return table.concat(out)
end)
