-- new_round: begins the next round of a group: its start is owed again (if the group has one) and memories of scope
-- `round` begin empty. Asked twice for the same round, it answers as the first time.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {group, round (the number to begin), home}
-- Returns the round in force
-- Cost    O(memories of the group); emptied memories are unlinked by `purge`

local function new_round(keys, args)
  local S, problem = begin(keys[1])
  if not S then return problem end
  local h = unpack_msg(args[1])
  local group = Lane.group(S, h.group)
  if not group then return fail('NOGROUP', h.group) end
  local round = tonumber(call('HGET', S.b .. K.rounds, h.group)) or 0
  if h.round > round then
    call('HSET', S.b .. K.rounds, h.group, h.round)
    for _, name in ipairs(call('HKEYS', S.b .. K.seen_names)) do
      local of_round = string.match(name, '|([^|]*@round)|%d+$')
      if of_round and sub(name, 1, #h.group + 1) == h.group .. '|' and not string.match(name, '|' .. h.round .. '$') then
        local number = call('HGET', S.b .. K.seen_names, name)
        call('HDEL', S.b .. K.seen_names, name)
        call('RPUSH', S.b .. K.purge, number)
      end
    end
    if h.home and group.start then
      local raw = call('HGET', S.b .. K.starts, h.group)
      local v = raw and unpack_msg(raw)
      if not v or v[2] == 'done' then open_change(S, h.group, 1) end
      call('HSET', S.b .. K.starts, h.group, pack({h.round, 'owed', '', 0}))
    end
    round = h.round
    S.changed = true
    finish(S)
  end
  return format('%d', round)
end

register('new_round', new_round)
