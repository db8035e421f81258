-- open: creates a crawl's partition if it does not exist, and describes it.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {schema, partitions, salt, default host policy}
-- Returns msgpack {schema, partitions, config version, now}
-- Cost    O(1); harmless when repeated

register('open', {'allow-oom'}, function(keys, args)
  local base, h = keys[1], unpack_msg(args[1])
  local key = base .. K.meta
  if call('EXISTS', key) == 0 then
    call('HSET', key, 'schema', h.schema, 'partitions', h.partitions, 'cfg', '1-' .. h.salt)
    call('HSET', base .. K.host_policy, '', pack(h.host))
  end
  local v = call('HMGET', key, 'schema', 'partitions', 'cfg')
  local S = begin(base)
  return pack({tonumber(v[1]), tonumber(v[2]), v[3], S.now})
end)
