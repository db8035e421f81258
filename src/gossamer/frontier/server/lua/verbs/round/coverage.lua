-- coverage: how many values the fields of groups' layers had in each of their last rounds; read only.
--
-- KEYS    1: the base key of partition 0, which gets all counters
-- ARGV    1: msgpack {groups[]}
-- Returns msgpack {for each group that is there: {group, flat {<round>|<layer or field>|<what>, number}}}
-- Cost    O(fields of the groups in 10 rounds)

verb('coverage', {'no-writes'}, function(S, h)
  local rows = {}
  for _, group in ipairs(h.groups) do
    if Lane.group(S, group) then rows[#rows + 1] = {group, call('HGETALL', S.b .. K.coverage .. group)} end
  end
  return pack(rows)
end)
