-- purge: unlinks unused memories, and page records of lanes that no longer keep any, a bounded part per call. Pages that
-- wait there are queued. Also makes pages due in lanes that revisit pages from now on.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {budget (keys to unlink)}
-- Returns 1 when nothing is left, else 0
-- Cost    O(budget)

verb('purge', {'allow-oom'}, function(S, h)
  local number = call('LINDEX', S.b .. K.purge, 0)
  if not number then return 1 end
  if not tonumber(number) then
    local done, rest = Pages.purge(S, number, h.budget)
    if done then call('LPOP', S.b .. K.purge) elseif rest then call('LSET', S.b .. K.purge, 0, rest) end
    finish(S)
    return done and call('EXISTS', S.b .. K.purge) == 0 and 1 or 0
  end
  local raw = call('HGET', S.b .. K.seen_policy, number)
  if raw then
    local book = Seen.open(S.b .. K.seen .. number, unpack_msg(raw), S.now, S.b .. K.page_texts .. number)
    if not book.kind.purge(book, h.budget) then return 0 end
    call('UNLINK', book.page_texts)
    call('HDEL', S.b .. K.seen_policy, number)
  end
  call('LPOP', S.b .. K.purge)
  return call('EXISTS', S.b .. K.purge) == 0 and 1 or 0
end)
