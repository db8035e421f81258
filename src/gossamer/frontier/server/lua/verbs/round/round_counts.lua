-- round_counts: what a group's present round has brought on this partition so far; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {group}
-- Returns msgpack {round, pages, items, failed, dead}
-- Cost    O(lanes of the group)

local function round_counts(keys, args)
  local S, problem = begin(keys[1])
  if not S then return problem end
  local group = unpack_msg(args[1]).group
  if not Lane.group(S, group) then return fail('NOGROUP', group) end
  return pack({Round.present(S, group), unpack(Round.counts(S, group))})
end

register('round_counts', round_counts, {'no-writes'})
