-- end_round: asks for the right to do what comes after a group's present round; one worker at a time has it, until done. It is
-- there once the group is drained.
--
-- KEYS    1: the partition's base key (the group's home partition)
-- ARGV    1: msgpack {incarnation, lease_ms, group, action (take|done|renew|release), round (the one that was found drained, for
--            take), drained, counts {pages, items, failed, dead of the round}, fields (to be noted, for done)}
-- Returns msgpack {state (granted|busy|done|lost|open), round, deadline ms}
-- Cost    O(log rounds); `take` by the holder answers granted again

local function noted(S, h, round, more)
  for name, value in pairs(Round.counted(h.counts)) do
    if more[name] == nil then more[name] = value end
  end
  Round.note(S, h.group, round, more)
end

-- Given back: it has not ended after all.
local function reopen(S, group, round)
  local row, raw = Round.row(S, group, round)
  if row then
    row.ended = nil
    Round.write(S, group, row, raw)
  end
end

local function end_round(keys, args)
  local S, problem = begin(keys[1])
  if not S then return problem end
  local h = unpack_msg(args[1])
  if not Lane.group(S, h.group) then return fail('NOGROUP', h.group) end
  local round = Round.present(S, h.group)
  local raw = call('HGET', S.b .. K.ends, h.group)
  local v = raw and unpack_msg(raw) -- round, state, incarnation, deadline
  if not v or v[RIGHT.round] ~= round then v = {round, 'owed', '', 0} end
  local mine = v[RIGHT.state] == 'leased' and v[RIGHT.incarnation] == h.i
  local answer
  if v[RIGHT.state] == 'done' then
    answer = (h.action == 'take' or v[RIGHT.incarnation] == h.i) and 'done' or 'lost'
  elseif h.action == 'take' then
    if not h.drained or h.round ~= round or count_now(S, 'g|' .. h.group .. '|open') > 0 then
      answer = 'open'
    elseif mine or v[RIGHT.state] == 'owed' or v[RIGHT.deadline] <= S.now then
      v[RIGHT.state], v[RIGHT.incarnation], v[RIGHT.deadline] = 'leased', h.i, S.now + h.lease
      answer = 'granted'
      noted(S, h, round, {ended = S.now})
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
    reopen(S, h.group, round)
  else
    v[RIGHT.state] = 'done'
    answer = 'done'
    h.fields.closed = S.now
    noted(S, h, round, h.fields)
  end
  if answer == 'granted' or (answer == 'done' and mine) then
    call('HSET', S.b .. K.ends, h.group, pack(v))
    finish(S)
  end
  return pack({answer, round, v[RIGHT.deadline]})
end

register('end_round', end_round, {'allow-oom'})
