-- alerts: what the leader of the planners has kept of alerts; read only.
--
-- KEYS    1: the base key of partition 0
-- ARGV    1: msgpack {names[] of the entries that are asked for, or nil: all}
-- Returns {now ms, name, value...}, without entries that do not exist
-- Cost    O(entries)

verb('alerts', {'no-writes'}, function(S, h)
  local key, reply = S.b .. K.alerts, {format('%d', S.now)}
  for _, name in ipairs(h.names or call('HKEYS', key)) do
    local value = call('HGET', key, name)
    if value then reply[#reply + 1], reply[#reply + 2] = name, value end
  end
  return reply
end)
