-- start: asks for the right to run a group's start in its present round; one worker at a time has it, until done.
--
-- KEYS    1: the partition's base key (the group's home partition)
-- ARGV    1: msgpack {incarnation, lease_ms, group, action (take|done|renew|release)}
-- Returns msgpack {state (granted|busy|done|lost|none), round, deadline ms}
-- Cost    O(1); `take` by the holder answers granted again

verb('start', {'allow-oom'}, function(S, h)
  local raw = call('HGET', S.b .. K.starts, h.group)
  if not raw then
    if not Lane.group(S, h.group) then return fail('NOGROUP', h.group) end
    return pack({'none', tonumber(call('HGET', S.b .. K.rounds, h.group)) or 0, 0})
  end
  local v = unpack_msg(raw)
  local answer, mine = Round.right(S, v, h)
  if answer == 'granted' and not mine then Round.note(S, h.group, v[RIGHT.round], {began = S.now}) end
  if answer == 'done' and mine then open_change(S, h.group, -1) end
  call('HSET', S.b .. K.starts, h.group, pack(v))
  S.changed = true
  finish(S)
  return pack({answer, v[RIGHT.round], v[RIGHT.deadline]})
end)
