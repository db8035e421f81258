-- put_page_versions: notes which version of pages was read last, so that a page that has not changed need not be sent again.
-- Beyond so many, those noted longest ago are forgotten.
--
-- KEYS    1: the base key of the partition of the pages
-- ARGV    1: msgpack {group, born (of the group that they were read for: of another one nothing is noted), names[], most (0: all are
--            forgotten), others (change counters of all partitions, by which is seen that one went back) or nil}; 2 and on: the versions, by name
-- Returns 1, or 0 where the group is not the one that is meant
-- Cost    O(names log versions); harmless when repeated

verb('put_page_versions', {'allow-oom'}, function(S, h, args)
  local group = Lane.group(S, h.group)
  local order, values = S.b .. K.version_order .. h.group, S.b .. K.versions .. h.group
  if h.most == 0 then
    call('UNLINK', order, values)
    finish(S)
    return 1
  end
  if not group or group.born ~= h.born then return 0 end
  for i, name in ipairs(h.names) do
    call('ZADD', order, S.now, name)
    call('HSET', values, name, args[i + 1])
  end
  if h.others then call('HSET', values, '', pack(h.others)) end
  local over = call('ZCARD', order) - h.most
  if over > 0 then
    local old = call('ZRANGE', order, 0, min(over, UNPACK_MAX) - 1)
    call('ZREM', order, unpack(old))
    call('HDEL', values, unpack(old))
  end
  finish(S)
  return 1
end)
