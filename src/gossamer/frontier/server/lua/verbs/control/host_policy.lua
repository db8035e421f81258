-- host_policy: how the fleet treats one host, or, with host '', every host that has no policy of its own.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {salt, host, change (whether policy counts), policy or false (back to the default), crawl_delay ms
--            or false (keep)}
-- Returns the config version
-- Cost    O(1)

verb('host_policy', {'allow-oom'}, function(S, h)
  if h.host == '' then
    call('HSET', S.b .. K.host_policy, '', pack(h.policy))
    bump_config(S, h.salt)
  else
    local host = Host.get(S, h.host)
    -- Every worker that reads a robots.txt reports its crawl delay.
    if not h.change and host.floor == h.crawl_delay then return S.m.cfg end
    if h.change then host.policy = h.policy or false end
    if h.crawl_delay then host.floor = h.crawl_delay end
    -- The delay counts from the last request, so the host looks again now.
    touch(S, h.host, host)
    Host.refresh(S, h.host, host)
  end
  finish(S)
  return S.m.cfg
end)
