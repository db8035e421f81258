-- append: items of a settled page that did not fit into the call that settled it.
--
-- KEYS    1: the partition's base key (of the page)
-- ARGV    1: msgpack {i (name of the call), group}; 2 and on: the items
-- Returns how many were appended; 0 for a repeat
-- Cost    O(items); idempotent by its name

verb('append', {'allow-oom'}, function(S, h, args)
  if kept_answer(S, h.i, 1) or not Lane.group(S, h.group) then return 0 end
  Lease.items(S, h.group, args, 2, #args - 1)
  finish(S)
  keep_answer(S, h.i, {1}, DELIVERED_TTL)
  return #args - 1
end)
