-- pause: stops or resumes leasing in the crawl, a group, a lane or a host. Leased requests and adding continue.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {salt, scope (crawl|group|lane|host), name, reason ('' resumes)}
-- Returns the config version
-- Cost    O(lanes of the group)

verb('pause', {'allow-oom'}, function(S, h)
  if h.scope == 'crawl' then
    call('HSET', S.b .. K.meta, 'paused', h.reason)
  elseif h.scope == 'host' then
    local host = Host.get(S, h.name)
    host.paused = h.reason
    touch(S, h.name, host)
    Host.refresh(S, h.name, host)
  else
    local group = h.scope == 'group'
    local key, field = S.b .. K.group_policy, h.name
    if not group then
      key, field = S.b .. K.lane_policy, call('HGET', S.b .. K.lane_names, h.name)
    end
    local raw = field and call('HGET', key, field)
    if not raw then return fail(group and 'NOGROUP' or 'NOLANE', h.name) end
    local policy = unpack_msg(raw)
    if policy.closed then return fail('NOLANE', h.name) end
    policy.paused = h.reason
    call('HSET', key, field, pack(policy))
    bump_config(S, h.salt)
    if h.reason == '' then
      if group then Lane.wake_group(S, h.name) else Lane.activate(S, Lane.by_id(S, field)) end
    elseif not group then
      Lane.deactivate(S, Lane.by_id(S, field))
    end
    Lane.note_shut(S, group and h.name or Lane.by_id(S, field).group)
  end
  S.changed = true
  finish(S)
  return S.m.cfg
end)
