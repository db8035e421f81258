-- cookies: what workers of a group have shared since a version of its cookies; read only.
--
-- KEYS    1: the base key of the group's home partition
-- ARGV    1: msgpack {group, after (version), began (whether to return that version) or nil}
-- Returns {msgpack {version up to which these are, more (1|0), names[], version with which those of this round began, if asked for}, the cookies, by name ('': it is gone)...}
-- Cost    O(1000)

local COOKIES_LOOK = 1000 -- twice what one call puts: a version is never cut

verb('cookies', {'no-writes'}, function(S, h)
  local found = call('ZRANGEBYSCORE', S.b .. K.jar .. h.group, '(' .. format('%d', h.after), '+inf', 'WITHSCORES', 'LIMIT', 0, COOKIES_LOOK)
  local version = tonumber(call('HGET', S.b .. K.sessions, h.group)) or 0
  local names, n, more = {}, #found, 0
  if n == 2 * COOKIES_LOOK then
    local last = found[n]
    while found[n] == last do n = n - 2 end
    version, more = tonumber(found[n]), 1
  end
  for i = 1, n, 2 do names[#names + 1] = found[i] end
  local values = #names > 0 and read_many(S.b .. K.cookies .. h.group, names) or {}
  for i = 1, #names do values[i] = values[i] or '' end
  local began = h.began and (tonumber(call('HGET', S.b .. K.jars_began, h.group)) or 0) or nil
  table.insert(values, 1, pack({version, more, names, began}))
  return values
end)
