-- put_page_versions: stores which version of each page was read last, so that servers need not send an unchanged page again, with
-- what else the worker wants to know of it then. At most `most` are kept, and `most` KiB; those stored longest ago go first.
--
-- KEYS    1: the base key of the partition of the pages
-- ARGV    1: msgpack {group, born (of the group that they were read for: for another one nothing is stored), names[], most (0: all are
--            dropped), others (change counters of all partitions, which show that one went back) or nil, edition (with most 0: of the
--            rules that pages are read by from now on) or nil}; 2 and on: the versions, by name
-- Returns 1, or 0 if it is another group
-- Cost    O(names log versions), and as much again for those that go; harmless when repeated

local EACH = 1024 -- bytes that are kept for each of `most`
local GOING = 50 -- versions that are removed at a time

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
  local bytes = 0
  for i, name in ipairs(h.names) do
    bytes = bytes + #args[i + 1] - call('HSTRLEN', values, name)
    call('ZADD', order, S.now, name)
    call('HSET', values, name, args[i + 1])
  end
  if h.others then call('HSET', values, '', pack(h.others)) end
  bytes = tonumber(call('HGET', values, 'bytes') or 0) + bytes
  local over, gone = call('ZCARD', order) - h.most, 0
  while (over > 0 or bytes > h.most * EACH) and gone < UNPACK_MAX do
    local old = call('ZRANGE', order, 0, (over > 0 and min(over, GOING) or GOING) - 1)
    if #old == 0 then break end
    for _, name in ipairs(old) do bytes = bytes - call('HSTRLEN', values, name) end
    call('ZREM', order, unpack(old))
    call('HDEL', values, unpack(old))
    over, gone = over - #old, gone + #old
  end
  call('HSET', values, 'bytes', format('%d', max(0, bytes)))
  finish(S)
  return 1
end)
