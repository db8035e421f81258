-- put_alerts: keeps what the leader of the planners has decided about alerts: all of it, or nothing if another planner leads.
--
-- KEYS    1: the base key of partition 0
-- ARGV    1: msgpack {term (of the leader), set[] (names of entries), drop[] (names of entries)}; 2...: the values of those to set
-- Returns 1
-- Cost    O(entries); harmless when repeated

verb('put_alerts', {'allow-oom'}, function(S, h, args)
  local refusal, key = Leader.refusal(S, h.term), S.b .. K.alerts
  if refusal then return refusal end
  for i, name in ipairs(h.set) do call('HSET', key, name, args[i + 1]) end
  for _, name in ipairs(h.drop) do call('HDEL', key, name) end
  finish(S)
  return 1
end)
