-- lease_tasks: takes tasks from a producer's list, set or sorted set (highest score first) under a lease.
--
-- KEYS    1: the producer's key; 2: the book (hash id -> {data, incarnation, nonce, attempts, the nonce it was
--         taken up with, deaths, 1 tried alone or 2 poison}); 3: deadlines; 4: the head of
--         the keys of answers, one per caller
-- ARGV    1: msgpack {incarnation, sequence, nonce, lease_ms, want, strikes}
-- Returns {msgpack {[[id, attempt, the nonce it was taken up with, 2 poison]...], nonce}, data...}
-- Cost    O(want log tasks); idempotent by (incarnation, sequence)

register('lease_tasks', {'allow-oom'}, function(keys, args)
  local source, book, deadlines, answers = keys[1], keys[2], keys[3], keys[4]
  local h = unpack_msg(args[1])
  local now = task_now(book)
  local kept = call('GET', answers .. ':' .. h.i)
  kept = kept and unpack_msg(kept)
  if kept and kept[1] > h.s then
    return fail('TOKEN', 'call ' .. h.s .. ' of ' .. h.i .. ' comes after call ' .. kept[1])
  end
  local ids
  if kept and kept[1] == h.s then
    ids, h.n = kept[2], kept[3]
  else
    ids = {}
    local due = call('ZRANGEBYSCORE', deadlines, '-inf', now, 'LIMIT', 0, h.want)
    local alone = false
    for _, id in ipairs(due) do
      local v = unpack_msg(call('HGET', book, id))
      -- A task that was given back has no holder; otherwise its holder died, or did not call for that long.
      local died = v[TASK.incarnation] ~= ''
      local deaths, state = (v[TASK.deaths] or 0) + (died and 1 or 0), v[TASK.state] or 0
      if state == 1 then state = died and 2 or 0 end
      if state == 0 and deaths >= h.strikes then state = 1 end
      -- Who holds a suspect holds no other task, so that none is blamed for what another did.
      if state ~= 1 or #ids == 0 then
        call('HSET', book, id, pack({v[TASK.data], h.i, h.n, v[TASK.attempts] + 1, v[TASK.first_nonce] or '', deaths, state}))
        ids[#ids + 1] = id
        alone = state == 1
        if alone then break end
      end
    end
    -- When memory is full, tasks that others held continue and no new one starts: its requests would be rejected.
    if #ids < h.want and not alone and not no_memory() then
      local fresh_tasks, problem = task_source(source, h.want - #ids)
      if not fresh_tasks then return problem end
      for _, data in ipairs(fresh_tasks) do
        local id = format('%d', call('HINCRBY', book, 'id', 1))
        -- A number may come again when the server has lost its last moments; a nonce does not.
        call('HSET', book, id, pack({data, h.i, h.n, 1, h.n, 0, 0}))
        ids[#ids + 1] = id
      end
      Unique.taken(book, fresh_tasks)
    end
    if #ids > 0 then Pace.begin(book, now) end
    for _, id in ipairs(ids) do call('ZADD', deadlines, now + h.lease, id) end
    call('SET', answers .. ':' .. h.i, pack({h.s, ids, h.n}), 'PX', ANSWER_TTL)
  end
  local heads, reply = {}, {''}
  for _, id in ipairs(ids) do
    local raw = call('HGET', book, id)
    local v = raw and unpack_msg(raw)
    if v and v[TASK.incarnation] == h.i and v[TASK.nonce] == h.n then
      heads[#heads + 1] = {tonumber(id), v[TASK.attempts], v[TASK.first_nonce] or '', v[TASK.state] or 0}
      reply[#reply + 1] = v[TASK.data]
    end
  end
  reply[1] = pack({heads, h.n})
  return reply
end)
