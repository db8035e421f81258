-- add: requests from producers and the planner; limits of lanes, groups and memory apply to them.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {incarnation, sequence, groups[], bound}; 2: the records. bound = false is for children
--            that go ahead of their page's settlement
-- Returns msgpack {outcomes[], room or -1, config version, epoch}
-- Cost    O(entries); idempotent by (incarnation, sequence)

local function add(keys, args)
  local S, problem = begin(keys[1])
  if not S then return problem end
  local h = unpack_msg(args[1])
  local kept, misuse = kept_answer(S, h.i, h.s)
  if misuse then return misuse end
  if kept then return pack({kept[2], kept[3], S.m.cfg, S.m.epoch}) end
  local outcomes, room = Adding.add(S, h.add, args[2], h.bound, {}, h.group)
  finish(S)
  keep_answer(S, h.i, {h.s, outcomes, room or -1}, ONCE_TTL)
  return pack({outcomes, room or -1, S.m.cfg, S.m.epoch})
end

register('add', add, {'allow-oom'})
