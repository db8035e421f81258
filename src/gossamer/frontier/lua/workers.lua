-- workers: the registry of workers: list them, ask one to drain, or forget those long gone.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {action (list|drain|undrain|forget), incarnation, before ms}
-- Returns msgpack {now, [[incarnation, info, seen ms, held, draining]...]}
-- Cost    O(workers)

local function workers(keys, args)
  local S, problem = begin(keys[1])
  if not S then return problem end
  local h, out = unpack_msg(args[1]), {}
  if h.action == 'drain' then
    call('SADD', S.b .. K.draining, h.incarnation)
  elseif h.action == 'undrain' then
    call('SREM', S.b .. K.draining, h.incarnation)
  elseif h.action == 'forget' then
    for _, name in ipairs(call('ZRANGEBYSCORE', S.b .. K.worker_seen, '-inf', S.now - h.before, 'LIMIT', 0, 100)) do
      if count_now(S, 'w|' .. name) == 0 then
        call('ZREM', S.b .. K.worker_seen, name)
        call('HDEL', S.b .. K.workers, name)
        call('SREM', S.b .. K.draining, name)
      end
    end
  end
  local seen = call('ZRANGE', S.b .. K.worker_seen, 0, -1, 'WITHSCORES')
  for i = 1, #seen, 2 do
    out[#out + 1] = {
      seen[i], call('HGET', S.b .. K.workers, seen[i]) or '', tonumber(seen[i + 1]), count_now(S, 'w|' .. seen[i]),
      call('SISMEMBER', S.b .. K.draining, seen[i]),
    }
  end
  return pack({S.now, out})
end

register('workers', workers, {'allow-oom'})
