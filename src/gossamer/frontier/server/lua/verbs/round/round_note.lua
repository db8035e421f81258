-- round_note: notes something about a round that has begun. What was noted first stays for began, ended, closed, trigger and who;
-- the rest is overwritten.
--
-- KEYS    1: the partition's base key (the group's home partition)
-- ARGV    1: msgpack {group, round, fields {began, ended (ms), trigger, who, pages, items, failed, dead, late, note, tasks, obstacle}}
-- Returns 1, or 0 if there is no such round yet or it is too long ago to be kept
-- Cost    O(log rounds)

verb('round_note', {'allow-oom'}, function(S, h)
  if not Lane.group(S, h.group) then return fail('NOGROUP', h.group) end
  if h.round > Round.present(S, h.group) then return 0 end
  Round.note(S, h.group, h.round, h.fields)
  S.changed = true
  finish(S)
  return Round.row(S, h.group, h.round) and 1 or 0
end)
