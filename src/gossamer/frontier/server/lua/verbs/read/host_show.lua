-- host_show: what is known of hosts; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {hosts[]}
-- Returns msgpack [[host, inflight, next ms, blocked ms, why, paused, delay ms, throttles, crawl delay ms, has policy,
--            policy in force]...]
-- Cost    O(hosts)

verb('host_show', {'no-writes'}, function(S, h)
  local out = {}
  for i, name in ipairs(h.hosts) do
    local host = Host.get(S, name)
    out[i] = {
      name, host.inflight, Host.next(S, host), host.blocked, host.why, host.paused, Host.delay(S, host), host.throttles, host.floor,
      host.policy and 1 or 0, host.policy or Host.default(S),
    }
  end
  return pack({S.now, out})
end)
