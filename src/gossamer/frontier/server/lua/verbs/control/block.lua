-- block: nothing is leased from a host until a time; 0 unblocks it.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {host, for_ms (0: unblock), reason}
-- Returns the time in ms until which it is blocked, or 0
-- Cost    O(places where the host is parked)

verb('block', {'allow-oom'}, function(S, h)
  local untl = h.for_ms > 0 and S.now + h.for_ms or 0
  local host = Host.get(S, h.host)
  host.throttles, host.answers = 0, 0
  Host.block(S, h.host, untl, untl > 0 and h.reason or '')
  S.changed = true
  finish(S)
  return format('%d', untl)
end)
