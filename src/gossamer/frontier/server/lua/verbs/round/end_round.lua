-- end_round: asks for the right to do what comes after a group's present round; one worker at a time has it, until done. It is
-- there once the group is drained.
--
-- KEYS    1: the partition's base key (the group's home partition)
-- ARGV    1: msgpack {incarnation, lease_ms, group, action (take|done|renew|release), round (the one that was found drained, for
--            take), epoch (in which it was), drained, counts {pages, items, failed, dead of the round}, fields (to be noted, for done)}
-- Returns msgpack {state (granted|busy|done|lost|open), round, deadline ms}; nil if the partition is in another epoch, and nothing
--            happens
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

verb('end_round', {'allow-oom'}, function(S, h)
  if not Lane.group(S, h.group) then return fail('NOGROUP', h.group) end
  if h.action == 'take' and h.epoch ~= S.m.epoch then
    -- It may have gone back to a state in which the group is not drained. From now on this epoch is known.
    finish(S)
    return pack(nil)
  end
  local round = Round.present(S, h.group)
  local raw = call('HGET', S.b .. K.ends, h.group)
  local v = raw and unpack_msg(raw)
  if not v or v[RIGHT.round] ~= round then v = {round, 'owed', '', 0} end
  if h.action == 'take' and v[RIGHT.state] ~= 'done' then
    local over = h.drained and h.round == round and count_now(S, 'g|' .. h.group .. '|open') <= 0
    if not over then return pack({'open', round, v[RIGHT.deadline]}) end
  end
  local answer, mine = Round.right(S, v, h)
  if answer == 'granted' and h.action == 'take' then noted(S, h, round, {ended = S.now}) end
  if answer == 'granted' and h.action == 'release' then reopen(S, h.group, round) end
  if answer == 'done' and mine then
    h.fields.closed = S.now
    noted(S, h, round, h.fields)
  end
  if answer == 'granted' or (answer == 'done' and mine) then
    call('HSET', S.b .. K.ends, h.group, pack(v))
    S.changed = true
    finish(S)
  end
  return pack({answer, round, v[RIGHT.deadline]})
end)
