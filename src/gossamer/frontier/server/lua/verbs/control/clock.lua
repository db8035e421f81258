-- clock: moves the partition's time forward, for tests only. The testing library alone calls it.
--
-- KEYS    1: the partition's base key (or a task book, with field `off` as well)
-- ARGV    1: msgpack {by_ms, book (true for a task book)}
-- Returns the offset in ms
-- Cost    O(1)

register('clock', {'allow-oom'}, function(keys, args)
  local h = unpack_msg(args[1])
  return call('HINCRBY', keys[1] .. (h.book and '' or K.meta), 'off', h.by_ms)
end)
