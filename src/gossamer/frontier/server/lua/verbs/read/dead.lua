-- dead: dead letters of a group: list, show, replay, drop, or bury one from outside (a bad task).
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {action, group, ids[] (show: and bytes, of records after which no further one is shown) or after (rank to list
--            from) and limit, or for bury: lane, host, priority, reason, detail, key}; for bury then the record
-- Returns msgpack: list/show [[id, group, lane, host, priority, attempts, reason, detail, at, fingerprint]...] (show: then the
--            records); replay/drop/bury the number done
-- Cost    O(limit log dead)

local function dead_get(S, id)
  local raw = call('HGET', S.b .. K.dead, id)
  return raw and unpack_msg(raw)
end

-- The fingerprint of a record in hexadecimal.
local function fp_of(record)
  if #record < 9 then return '0' end
  return (string.gsub(sub(record, 2, 9), '.', function(c) return format('%02x', byte(c)) end))
end

local function head_of(id, v)
  return {
    tonumber(id), v[DEAD.group], v[DEAD.lane], v[DEAD.host], v[DEAD.priority], v[DEAD.attempts], v[DEAD.reason], v[DEAD.detail],
    v[DEAD.at], fp_of(v[DEAD.record]),
  }
end

local function dead_remove(S, group, id)
  call('HDEL', S.b .. K.dead, id)
  call('ZREM', S.b .. K.dead_order .. group, id)
  local policy = Lane.group(S, group)
  if policy and call('ZCARD', S.b .. K.dead_order .. group) < policy.max_dead then Lane.unhold(S, group, 'dead_full') end
end

local function replay(S, id, v)
  local lane = Lane.by_name(S, v[DEAD.lane])
  if not lane or lane.closed or not sound(v[DEAD.record]) then return 0 end
  -- As a new request: its attempts and strikes are forgiven, its place in seen stays.
  if not Seen.mark(S, lane, v[DEAD.record]) or lane.records and not Pages.queued(S, lane, v[DEAD.host], v[DEAD.priority], v[DEAD.record]) then
    dead_remove(S, v[DEAD.group], id)
    return 1
  end
  Queue.push(S, lane, v[DEAD.priority], v[DEAD.host], {v[DEAD.record]})
  count(S, lane.id .. '|q', 1)
  open_change(S, lane.group, 1)
  dead_remove(S, v[DEAD.group], id)
  return 1
end

verb('dead', {'allow-oom'}, function(S, h, args)
  local out, done = {}, 0
  if h.action == 'list' then
    for _, id in ipairs(call('ZRANGE', S.b .. K.dead_order .. h.group, h.after, h.after + h.limit - 1)) do
      local v = dead_get(S, id)
      if v then out[#out + 1] = head_of(id, v) end
    end
    return {pack(out)}
  end
  if h.action == 'bury' then
    if not Lane.group(S, h.group) then return fail('NOGROUP', h.group) end
    if not keyed_before(S, h.group, h.key) then
      done = 1
      bury(S, h.group, h.lane, {'', h.host, h.priority, 0, 0, '', '', 0, args[2]}, 0, h.reason, h.detail)
    end
    trim_keyed(S)
  else
    local records, size = {''}, 0
    for _, id in ipairs(h.ids) do
      if h.action == 'show' and h.bytes and size >= h.bytes then break end
      local v = dead_get(S, id)
      if v then
        if h.action == 'show' then
          out[#out + 1] = head_of(id, v)
          records[#records + 1] = Changed.plain(v[DEAD.record])
          size = size + #v[DEAD.record]
        elseif h.action == 'replay' then
          done = done + replay(S, id, v)
        else
          dead_remove(S, v[DEAD.group], id)
          done = done + 1
        end
      end
    end
    if h.action == 'show' then
      records[1] = pack(out)
      return records
    end
  end
  Seen.save(S)
  S.changed = done > 0
  finish(S)
  return {pack(done)}
end)
