-- items: a named consumer reports up to where it has stored a group's items; what all consumers have stored is trimmed.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {group, consumer, id (stream id; '' only registers; 'gone' ends the consumer)}
-- Returns msgpack {trimmed, waiting, more (1: call again, there is more to trim)}
-- Cost    O(TRIM_MAX)

local function older(a, b)
  local at, an = string.match(a, '^(%d+)-(%d+)$')
  local bt, bn = string.match(b, '^(%d+)-(%d+)$')
  at, an, bt, bn = tonumber(at), tonumber(an), tonumber(bt), tonumber(bn)
  return at < bt or (at == bt and an < bn)
end

local TRIM_MAX = 1000 -- entries per call
local BLOCK = 100      -- entries of one block of a stream, as servers are configured

-- Whole blocks first, as many as one call may; the part of a block that is left then is cut off exactly.
local function trim(stream, least)
  local time, number = string.match(least, '^(%d+)-(%d+)$')
  local upto = time .. '-' .. format('%d', tonumber(number) + 1)
  local trimmed = call('XTRIM', stream, 'MINID', '~', upto, 'LIMIT', TRIM_MAX)
  if trimmed > TRIM_MAX - BLOCK then return trimmed, true end
  return trimmed + call('XTRIM', stream, 'MINID', upto), false
end

verb('items', {'allow-oom'}, function(S, h)
  if not Lane.group(S, h.group) then
    -- Nothing is kept of a dropped group, not even its consumers.
    return pack({0, 0, 0})
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
  local trimmed, more = 0, false
  if least and least ~= '0-0' then trimmed, more = trim(stream, least) end
  if trimmed > 0 then Items.trimmed(S, h.group) end
  local policy, waiting = Lane.group(S, h.group), call('XLEN', stream)
  if policy and not Items.full(S, h.group, policy) then Lane.unhold(S, h.group, 'items_full') end
  S.changed = trimmed > 0
  finish(S)
  return pack({trimmed, waiting, more and 1 or 0})
end)
