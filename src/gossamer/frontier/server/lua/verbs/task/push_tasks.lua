-- push_tasks: pushes a producer's tasks to its list, set or sorted set: each key of a unique task once, and no more than there is room for.
--
-- KEYS    1: the producer's key; 2: the book; 3: deadlines; 4: the head of the keys of answers, one per caller
-- ARGV    1: msgpack {incarnation, sequence, kind (list|set|zset), score, max (tasks that may wait; 0: any number), n (tasks),
--            hold (of unique tasks, for how long a key is known: 0 while its task waits or is leased, ms also since it was pushed, '*' until
--            it is forgotten)}; then n tasks; with `hold`, then their keys
-- Returns msgpack {a letter each: n pushed, w waits already, r a worker has or had it, - no room; waiting, leased}
-- Cost    O(n log tasks); idempotent by (incarnation, sequence)

register('push_tasks', {'allow-oom'}, function(keys, args)
  local source, book, deadlines, answers = keys[1], keys[2], keys[3], keys[4]
  local h = unpack_msg(args[1])
  local kept = call('GET', answers .. ':' .. h.i)
  kept = kept and unpack_msg(kept)
  if kept and kept[1] > h.s then
    return fail('TOKEN', 'call ' .. h.s .. ' of ' .. h.i .. ' comes after call ' .. kept[1])
  end
  if kept and kept[1] == h.s then return kept[2] end
  local full = no_memory()
  if full then return full end
  local kind = task_kind(source)
  if kind ~= 'none' and kind ~= h.kind then
    return fail('TASKTYPE', 'key ' .. source .. ' is a ' .. kind .. ', not a ' .. h.kind)
  end
  local now, size, leased = task_now(book), task_size(source), call('ZCARD', deadlines)
  local room = h.max > 0 and max(0, h.max - size) or huge
  if h.hold then Unique.clean(book, size, leased, now, h.n) end
  local letters, fresh, marked = {}, {}, {}
  for i = 1, h.n do
    local data, key, letter = args[1 + i], h.hold and args[1 + h.n + i], nil
    if key then letter = marked[key] or Unique.state(book, key, size, leased, now) end
    if not letter and h.kind == 'set' and call('SISMEMBER', source, data) == 1 then letter = 'w' end
    if h.kind == 'zset' and letter ~= 'r' and call('ZSCORE', source, data) then
      call('ZADD', source, h.score, data)
      letter = 'w'
    end
    if not letter and room > 0 then
      letter, room = 'n', room - 1
      if h.kind == 'list' then
        fresh[#fresh + 1] = data
      elseif h.kind == 'set' then
        call('SADD', source, data)
      else
        call('ZADD', source, h.score, data)
      end
      if key then
        Unique.pushed(book, key, data, h.hold, now)
        marked[key] = 'w'
      end
    end
    letters[i] = letter or '-'
  end
  if #fresh > 0 then call_chunked('RPUSH', source, fresh) end
  local answer = pack({table.concat(letters), task_size(source), leased})
  call('SET', answers .. ':' .. h.i, pack({h.s, answer}), 'PX', ONCE_TTL)
  return answer
end)
