-- restore_tasks: puts tasks of a snapshot back to their producer's key, ahead of what waits there; each line once.
--
-- KEYS    1: the producer's key; 2: the book; 3: deadlines; 4: answers
-- ARGV    1: msgpack {snapshot, tasks [[line, kind (list|set|zset), score]...], run (the server process that has what was put back
--            before; another one may lack some of it), '' or nil}; then the data of each
-- Returns how many were put back; if a run was given, even '', msgpack {how many, run}
-- Cost    O(tasks)

register('restore_tasks', {}, function(keys, args)
  local source, answers, h = keys[1], keys[4], unpack_msg(args[1])
  if (h.run or '') ~= '' and h.run ~= RUN then return fail('REPLACED', '') end
  local field = 'restored ' .. h.snapshot
  local before, done = tonumber(call('HGET', answers, field)) or 0, 0
  local kind = call('TYPE', source)
  kind = type(kind) == 'table' and kind.ok or kind
  for i, t in ipairs(h.tasks) do
    if t[1] > before then
      local as = kind ~= 'none' and kind or t[2]
      if as == 'set' then
        call('SADD', source, args[i + 1])
      elseif as == 'zset' then
        call('ZADD', source, t[3], args[i + 1])
      elseif as == 'list' then
        call('LPUSH', source, args[i + 1])
      else
        return fail('TASKTYPE', 'key ' .. source .. ' is a ' .. as .. ', not a list, set or sorted set')
      end
      done, before = done + 1, t[1]
      kind = as
    end
  end
  if done > 0 then call('HSET', answers, field, before) end
  return h.run and pack({done, RUN}) or done
end)
