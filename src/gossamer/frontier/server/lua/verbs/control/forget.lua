-- forget: fingerprints become new again for a lane's memory. With probe they are only looked up; with unsettle they stay, and only what lists said
--         when their pages were last fetched is forgotten: whatever lists say next is another text.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {lane, fingerprints[], probe, unsettle}
-- Returns letters: y (it was known, or its text) or n
-- Cost    O(fingerprints)

verb('forget', {'allow-oom'}, function(S, h)
  local lane = Lane.by_name(S, h.lane)
  if not lane then return fail('NOLANE', h.lane) end
  local book, out = Seen.of(S, lane), {}
  if h.unsettle then
    local holder = Seen.holder(S, lane)
    for i, fp in ipairs(h.fps) do out[i] = holder and Changed.unsettled(S, holder, Pages.name(fp)) and 'y' or 'n' end
    h.fps = {}
  end
  for i, fp in ipairs(h.fps) do
    local known = lane.records and Pages.known(S, lane, fp, not h.probe)
    if not known and book then
      -- One that is under way with a text is fetched in any case.
      local stays = h.probe or not lane.records and Changed.under_way(S, book, Pages.name(fp)) ~= ''
      if stays then known = book.kind.has(book, fp) else known = book.kind.forget(book, fp) end
      if not stays and not lane.records then Changed.forget(S, book, {Pages.name(fp)}) end
    end
    out[i] = known and 'y' or 'n'
  end
  Seen.save(S)
  S.changed = not h.probe
  finish(S)
  return table.concat(out)
end)
