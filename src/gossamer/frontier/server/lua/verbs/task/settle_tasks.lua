-- settle_tasks: ends leases on tasks: done, or back to be leased again at once. Also counts what is left.
--
-- KEYS    1: the producer's key; 2: the book; 3: deadlines; 4: answers
-- ARGV    1: msgpack {incarnation, done [[id, nonce]...], release [[id, nonce]...], renew_ms, renew [[id, nonce]...]}
-- Returns msgpack {letters for done, release, renew: s settled or l lost; waiting, leased; how many were settled lately, in how many ms}
-- Cost    O(n log tasks); a repeat answers l and changes nothing

register('settle_tasks', {'allow-oom'}, function(keys, args)
  local source, book, deadlines = keys[1], keys[2], keys[3]
  local h, out = unpack_msg(args[1]), {}
  local function each(list, action)
    for _, t in ipairs(list) do
      local raw = call('HGET', book, t[HELD.id])
      local v = raw and unpack_msg(raw)
      if v and v[TASK.incarnation] == h.i and v[TASK.nonce] == t[HELD.nonce] then
        action(t[HELD.id], v)
        out[#out + 1] = 's'
      else
        out[#out + 1] = 'l'
      end
    end
  end
  local settled, now = 0, #h.done + #h.release + #h.renew > 0 and task_now(book) or nil
  each(h.done, function(id, v)
    call('HDEL', book, id)
    call('ZREM', deadlines, id)
    Unique.settled(book, v[TASK.data], now)
    settled = settled + 1
  end)
  each(h.release, function(id)
    call('ZADD', deadlines, now, id)
    local v = unpack_msg(call('HGET', book, id))
    call('HSET', book, id, pack({v[TASK.data], '', '', v[TASK.attempts], v[TASK.first_nonce] or '', v[TASK.deaths] or 0, v[TASK.state] or 0}))
  end)
  each(h.renew, function(id) call('ZADD', deadlines, now + h.lease, id) end)
  local size, leased = task_size(source), call('ZCARD', deadlines)
  if settled > 0 then Pace.settled(book, now, settled, size + leased) end
  local count, ms = Pace.of(book, now)
  return pack({table.concat(out), size, leased, count, ms})
end)
