-- put_cookies: stores cookies that the workers of a group share. At most `most` are kept; those that changed longest ago go first.
--
-- KEYS    1: the partition's base key (the group's home partition; of the others, with `version`)
-- ARGV    1: msgpack {group, names[], most, version (in other partitions: the one to report to workers) or nil}; 2 and on: the cookies, by name; '':
--            it is gone
-- Returns msgpack {version before, version}: a time, larger than any before
-- Cost    O(names log cookies); harmless when repeated

verb('put_cookies', {'allow-oom'}, function(S, h, args)
  if not Lane.group(S, h.group) then return fail('NOGROUP', h.group) end
  local before = tonumber(call('HGET', S.b .. K.sessions, h.group)) or 0
  local version = h.version or max(S.now, before + 1)
  local jar, values = S.b .. K.jar .. h.group, S.b .. K.cookies .. h.group
  for i, name in ipairs(h.names) do
    call('ZADD', jar, version, name)
    call('HSET', values, name, args[i + 1])
  end
  local over = #h.names > 0 and call('ZCARD', jar) - h.most or 0
  if over > 0 then
    local old = call('ZRANGE', jar, 0, min(over, UNPACK_MAX) - 1)
    call('ZREM', jar, unpack(old))
    call('HDEL', values, unpack(old))
  end
  call('HSET', S.b .. K.sessions, h.group, format('%d', max(before, version)))
  finish(S)
  return pack({before, version})
end)
