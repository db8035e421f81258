-- dropped: which of these groups and lanes were dropped, by their births (see define), and when something was dropped last; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {births[]}
-- Returns msgpack {births[] of those that were, ms since a lane or group was dropped here, or -1}
-- Cost    O(births)

verb('dropped', {'no-writes'}, function(S, h)
  local found = {}
  for _, born in ipairs(h.births) do
    if call('ZSCORE', S.b .. K.dropped, born) then found[#found + 1] = born end
  end
  local last = call('ZRANGE', S.b .. K.dropped, -1, -1, 'WITHSCORES')[2]
  return pack({found, last and S.now - tonumber(last) or -1})
end)
