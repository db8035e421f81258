-- group_open: what still keeps a group from being drained, and the number of the call that changed this last; read only, O(1).
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {group}
-- Returns msgpack {open, number of the last change of what is open in this group, tasks keys[]}
-- Cost    O(1)

verb('group_open', {'no-writes'}, function(S, h)
  local group = h.group
  local policy = Lane.group(S, group)
  if not policy then return fail('NOGROUP', group) end
  return pack({count_now(S, 'g|' .. group .. '|open'), count_now(S, 'g|' .. group .. '|moved'), policy.tasks})
end)
