-- items: a named consumer says up to where it has kept a group's items; what all consumers have kept is trimmed.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {group, consumer, id (stream id; '' only registers; 'gone' ends the consumer)}
-- Returns msgpack {trimmed, waiting}
-- Cost    O(trimmed)

local function older(a, b)
  local at, an = string.match(a, '^(%d+)-(%d+)$')
  local bt, bn = string.match(b, '^(%d+)-(%d+)$')
  at, an, bt, bn = tonumber(at), tonumber(an), tonumber(bt), tonumber(bn)
  return at < bt or (at == bt and an < bn)
end

local function items(keys, args)
  local S, problem = begin(keys[1])
  if not S then return problem end
  local h = unpack_msg(args[1])
  if not Lane.group(S, h.group) then
    -- Of a group that was dropped nothing is kept, nor who reads it.
    return pack({0, 0})
  end
  local book, stream = S.b .. K.consumers .. h.group, S.b .. K.items .. h.group
  if h.id == 'gone' then
    call('HDEL', book, h.consumer)
  elseif h.id == '' then
    call('HSETNX', book, h.consumer, '0-0')
  else
    local old = call('HGET', book, h.consumer)
    if not old or older(old, h.id) then call('HSET', book, h.consumer, h.id) end
  end
  local least
  for _, id in ipairs(call('HVALS', book)) do
    if not least or older(id, least) then least = id end
  end
  local trimmed = 0
  if least and least ~= '0-0' then
    local time, number = string.match(least, '^(%d+)-(%d+)$')
    trimmed = call('XTRIM', stream, 'MINID', time .. '-' .. format('%d', tonumber(number) + 1))
  end
  local policy, waiting = Lane.group(S, h.group), call('XLEN', stream)
  if policy and (policy.max_items == 0 or waiting < policy.max_items) then Lane.unhold(S, h.group, 'items_full') end
  S.changed = trimmed > 0
  finish(S)
  return pack({trimmed, waiting})
end

register('items', items, {'allow-oom'})
