-- round_counts: what a group's present round has brought on this partition so far; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {group}
-- Returns msgpack {round, pages, items, failed, dead, epoch}
-- Cost    O(lanes of the group)

verb('round_counts', {'no-writes'}, function(S, h)
  local group = h.group
  if not Lane.group(S, group) then return fail('NOGROUP', group) end
  local pages, items, failed, dead = unpack(Round.counts(S, group))
  return pack({Round.present(S, group), pages, items, failed, dead, S.m.epoch})
end)
