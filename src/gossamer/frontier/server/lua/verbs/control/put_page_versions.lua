-- put_page_versions: stores which version of each page was read last, so that servers need not send an unchanged page again.
-- At most `most` are kept; those stored longest ago go first.
--
-- KEYS    1: the base key of the partition of the pages
-- ARGV    1: msgpack {group, born (of the group that they were read for: for another one nothing is stored), names[], most (0: all are
--            dropped), others (change counters of all partitions, which show that one went back) or nil, edition (with most 0: of the
--            rules that pages are read by from now on) or nil}; 2 and on: the versions, by name
-- Returns 1, or 0 if it is another group
-- Cost    O(names log versions); harmless when repeated

verb('put_page_versions', {'allow-oom'}, function(S, h, args)
  local group = Lane.group(S, h.group)
  local order, values = S.b .. K.version_order .. h.group, S.b .. K.versions .. h.group
  if h.most == 0 then
    local edition = h.edition or call('HGET', values, 'edition')
    call('UNLINK', order, values)
    if edition and group then call('HSET', values, 'edition', edition) end
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
