-- group_open: what still keeps a group from being drained, and whether anything changed since; read only, O(1).
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {group}
-- Returns msgpack {open, change counter, tasks keys[]}
-- Cost    O(1)

verb('group_open', {'no-writes'}, function(S, h)
  local group = h.group
  local policy = Lane.group(S, group)
  if not policy then return fail('NOGROUP', group) end
  return pack({count_now(S, 'g|' .. group .. '|open'), S.m.chg, policy.tasks})
end)
