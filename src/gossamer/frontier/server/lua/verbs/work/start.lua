-- start: asks for the right to run a group's start in its present round; one worker at a time has it, until done.
--
-- KEYS    1: the partition's base key (the group's home partition)
-- ARGV    1: msgpack {incarnation, lease_ms, group, action (take|done|renew|release)}
-- Returns msgpack {state (granted|busy|done|lost|none), round, deadline ms}
-- Cost    O(1); `take` by the holder answers granted again

local function start(keys, args)
  local S, problem = begin(keys[1])
  if not S then return problem end
  local h = unpack_msg(args[1])
  local raw = call('HGET', S.b .. K.starts, h.group)
  if not raw then
    if not Lane.group(S, h.group) then return fail('NOGROUP', h.group) end
    return pack({'none', tonumber(call('HGET', S.b .. K.rounds, h.group)) or 0, 0})
  end
  local v = unpack_msg(raw) -- round, state, incarnation, deadline
  local mine = v[RIGHT.state] == 'leased' and v[RIGHT.incarnation] == h.i
  local answer
  if v[RIGHT.state] == 'done' then
    -- To whoever asks for it; but only one worker has run it to its end.
    answer = (h.action == 'take' or v[RIGHT.incarnation] == h.i) and 'done' or 'lost'
  elseif h.action == 'take' then
    if mine or v[RIGHT.state] == 'owed' or v[RIGHT.deadline] <= S.now then
      v[RIGHT.state], v[RIGHT.incarnation], v[RIGHT.deadline] = 'leased', h.i, S.now + h.lease
      answer = 'granted'
      if not mine then Round.note(S, h.group, v[RIGHT.round], {began = S.now}) end
    else
      answer = 'busy'
    end
  elseif not mine then
    answer = 'lost'
  elseif h.action == 'renew' then
    v[RIGHT.deadline] = S.now + h.lease
    answer = 'granted'
  elseif h.action == 'release' then
    v[RIGHT.state], v[RIGHT.incarnation], v[RIGHT.deadline] = 'owed', '', 0
    answer = 'granted'
  else
    v[RIGHT.state] = 'done'
    answer = 'done'
    open_change(S, h.group, -1)
  end
  call('HSET', S.b .. K.starts, h.group, pack(v))
  S.changed = true
  finish(S)
  return pack({answer, v[RIGHT.round], v[RIGHT.deadline]})
end

register('start', start, {'allow-oom'})
