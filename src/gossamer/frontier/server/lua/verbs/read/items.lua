-- items: a consumer reports up to where it has written a group's items, or a user drops items.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {group, consumer ('': an export without a name), id (stream id; '' only registers; 'gone' ends the consumer), drop (stream id up to
--            which items are removed, a slice per call) or nil}
-- Returns msgpack {removed, items that are there, more (1: call again, there is more to drop)}
-- Cost    O(consumers + 1000 items)

verb('items', {'allow-oom'}, function(S, h)
  local policy = Lane.group(S, h.group)
  if not policy then
    -- Nothing is kept of a dropped group, not even its consumers.
    return pack({0, 0, 0})
  end
  local book, stream = S.b .. K.consumers .. h.group, S.b .. K.items .. h.group
  local removed, more = 0, false
  if h.drop then
    removed, more = Items.drop(S, h.group, h.drop)
    S.changed = removed > 0
  elseif h.consumer == '' then
    if h.id ~= '' then Items.written(S, h.group, h.id) end
  elseif h.id == 'gone' then
    local position = call('HGET', book, h.consumer)
    if position and position ~= '0-0' then Items.written(S, h.group, position) end
    call('HDEL', book, h.consumer)
  elseif h.id == '' then
    call('HSETNX', book, h.consumer, '0-0')
  else
    local position = call('HGET', book, h.consumer)
    if not position or Items.older(position, h.id) then call('HSET', book, h.consumer, h.id) end
  end
  if not h.drop then Items.make_room(S, h.group, policy, 0) end
  if memory_full(S) then Items.relieve(S) end
  local there = call('XLEN', stream)
  if not Items.full(S, h.group, policy) then Lane.unhold(S, h.group, 'items_full') end
  finish(S)
  return pack({removed, there, more and 1 or 0})
end)
