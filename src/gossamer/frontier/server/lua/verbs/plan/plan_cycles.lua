-- plan_cycles: the last cycles of planners in which pages were due, newest first; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {limit}
-- Returns msgpack [{at ms, term, limit, scheduled before, lanes [{lane, share, moved, due pages that are left}]}...]
-- Cost    O(limit)

verb('plan_cycles', {'no-writes'}, function(S, h)
  local rows = {}
  for _, raw in ipairs(call('LRANGE', S.b .. K.cycles, -h.limit, -1)) do table.insert(rows, 1, unpack_msg(raw)) end
  return pack(rows)
end)
