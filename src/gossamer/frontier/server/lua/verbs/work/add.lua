-- add: requests from producers and the planner; limits of lanes, groups and memory apply to them.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {incarnation, sequence, groups[], bound, and for children that a settled page owes: bound = false, group (of
--            the page), lost (pages that were not settled)[], kept (true: it was delivered before; return the outcomes)}; 2: the records
-- Returns msgpack {outcomes[] (empty: it was delivered too long ago), room or -1, config version, epoch, now}
-- Cost    O(entries); idempotent by (incarnation, sequence)

verb('add', {'allow-oom'}, function(S, h, args)
  local kept, misuse = kept_answer(S, h.i, h.s)
  if misuse then return misuse end
  if kept then return pack({kept[2], kept[3], S.m.cfg, S.m.epoch, S.now}) end
  if h.kept then return pack({{}, -1, S.m.cfg, S.m.epoch, S.now}) end
  local lost = {}
  for _, page in ipairs(h.lost or {}) do lost[page] = true end
  local outcomes, room = Enqueue.add(S, h.add, args[2], h.bound, lost, h.group)
  finish(S)
  keep_answer(S, h.i, {h.s, outcomes, room or -1}, h.lost and DELIVERED_TTL or ONCE_TTL)
  return pack({outcomes, room or -1, S.m.cfg, S.m.epoch, S.now})
end)
