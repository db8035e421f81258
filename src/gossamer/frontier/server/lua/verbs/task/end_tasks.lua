-- end_tasks: forgets unique tasks whose keys are kept until then: those that have ended, with the reports of their end, and those
-- that no worker has and that do not wait.
--
-- KEYS    1: the producer's key; 2: the book; 3: deadlines; 4: answers; 5: the list of reports, in the same slot
-- ARGV    1: msgpack {ended keys[], lost keys[], reports (how many)}; then the reports
-- Returns a letter for each lost key: f forgotten, w it waits
-- Cost    O(keys + reports * their distance from the head of the list); harmless when repeated

register('end_tasks', {'allow-oom'}, function(keys, args)
  local source, held, list = keys[1], keys[2] .. ':h', keys[5]
  local h, letters = unpack_msg(args[1]), {}
  if #h.ended > 0 then call_chunked('HDEL', held, h.ended) end
  local size = task_size(source)
  for i, key in ipairs(h.lost) do
    letters[i] = 'f'
    if call('HGET', held, key) == 'w' and size > 0 then
      letters[i] = 'w'
    else
      call('HDEL', held, key)
    end
  end
  for i = 1, h.reports do call('LREM', list, 1, args[1 + i]) end
  return table.concat(letters)
end)
