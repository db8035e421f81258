-- locate: where a request of a lane is, and the last dead letter of its page; read only. Looks at no more than `look` of each: what workers
-- hold, the queues of its host in the lane from their heads on, delayed requests, dead letters.
--
-- KEYS    1: the base key of the partition of its host
-- ARGV    1: msgpack {lane, host, fp (signed decimal text), look, since (ms: dead letters from then on; -1: the newest ones; nil: none)}
-- Returns msgpack {now, state (queued|leased|delayed|suspect|''), priority, ahead (requests of this host that the lane leases before it),
--            at (ms: until when it is leased or delayed), worker, queued (requests of the lane on this partition), whole (1: all was
--            looked at), id of the dead letter or 0}
-- Cost    O(look)

local LOCATE_STEP = 500

-- Whether a queued record is of this page.
local function is_of(record, name)
  return sound(record) and sub(record, byte(record) == 1 and 16 or 2, byte(record) == 1 and 23 or 9) == name
end

-- The place of the page in a list, from 0; or nil, and how many were looked at.
local function place_in(key, name, look, backwards)
  local at = 0
  while at < look do
    local step = min(LOCATE_STEP, look - at)
    local page = backwards and call('LRANGE', key, -at - step, -at - 1) or call('LRANGE', key, at, at + step - 1)
    for i = 1, #page do
      if is_of(page[backwards and #page + 1 - i or i], name) then return at + i - 1, at end
    end
    at = at + #page
    if #page < step then break end
  end
  return nil, at
end

-- The priorities at which the lane may have work of the host, best first.
local function priorities_of(S, lane, host, look)
  local found, known = {}, {}
  for _, key in ipairs({S.b .. K.waiting .. lane.id .. ':' .. host, S.b .. K.priorities .. lane.id}) do
    for _, priority in ipairs(call('ZRANGE', key, 0, look - 1)) do
      if not known[priority] then
        known[priority] = true
        found[#found + 1] = tonumber(priority)
      end
    end
  end
  table.sort(found, function(a, b) return a > b end)
  return found
end

local function find_queued(S, lane, name, look, host)
  local ahead, left = 0, look
  for _, priority in ipairs(priorities_of(S, lane, host, look)) do
    local spot = place(lane.id, priority, host)
    for _, one in ipairs({{S.b .. K.front .. spot, false}, {S.b .. K.queue .. spot, lane.lifo}}) do
      local at, looked = place_in(one[1], name, left, one[2])
      if at then return {'queued', priority, ahead + at, 0, ''} end
      ahead, left = ahead + call('LLEN', one[1]), left - looked
    end
  end
  return nil, ahead <= look
end

local function find_leased(S, lane, name, look)
  local cursor, looked = '0', 0
  repeat
    local page = call('HSCAN', S.b .. K.leases, cursor, 'COUNT', LOCATE_STEP)
    cursor, looked = page[1], looked + #page[2] / 2
    for i = 1, #page[2], 2 do
      local v = lease_table(page[2][i + 1])
      if v[LEASE.lane_id] == lane.id and is_of(v[LEASE.record], name) then
        return {'leased', v[LEASE.priority], 0, tonumber(call('ZSCORE', S.b .. K.deadlines, page[2][i])) or 0, v[LEASE.incarnation]}
      end
    end
  until cursor == '0' or looked >= look
  return nil, cursor == '0'
end

local function find_delayed(S, lane, name, look)
  local page = call('ZRANGE', S.b .. K.delayed, 0, look - 1, 'WITHSCORES')
  for i = 1, #page, 2 do
    local _, v = unpack_msg(page[i])
    if v[QUEUED.lane] == lane.id and is_of(v[QUEUED.record], name) then return {'delayed', v[QUEUED.priority], 0, tonumber(page[i + 1]), ''} end
  end
  return nil, #page < 2 * look
end

local function find_suspect(S, lane, name, look)
  local page = call('LRANGE', S.b .. K.suspects, 0, look - 1)
  for _, raw in ipairs(page) do
    local v = unpack_msg(raw)[SUSPECT.lease]
    if v[LEASE.lane_id] == lane.id and is_of(v[LEASE.record], name) then return {'suspect', v[LEASE.priority], 0, 0, ''} end
  end
  return nil, #page < look
end

local function last_letter(S, lane, name, look, since)
  if not since then return 0, true end
  local key = S.b .. K.dead_order .. lane.group
  local ids = since >= 0 and call('ZRANGEBYSCORE', key, since, '+inf', 'LIMIT', 0, look) or call('ZRANGE', key, -look, -1)
  for i = #ids, 1, -1 do
    local raw = call('HGET', S.b .. K.dead, ids[i])
    local v = raw and unpack_msg(raw)
    if v and v[DEAD.lane] == lane.name and is_of(v[DEAD.record], name) then return tonumber(ids[i]), true end
  end
  return 0, #ids < look
end

verb('locate', {'no-writes'}, function(S, h)
  local lane = Lane.by_name(S, h.lane)
  if not lane then return fail('NOLANE', h.lane) end
  local name, whole, found = Pages.name(h.fp), true, nil
  -- Where there are several, the one that goes out first.
  for _, find in ipairs({find_leased, find_queued, find_suspect, find_delayed}) do
    local all
    found, all = find(S, lane, name, h.look, h.host)
    if found then break end
    whole = whole and all
  end
  local letter, all = last_letter(S, lane, name, h.look, h.since)
  found = found or {'', 0, 0, 0, ''}
  return pack({
    S.now, found[1], found[2], found[3], found[4], found[5], count_now(S, lane.f.q), (found[1] ~= '' or whole) and all and 1 or 0, letter,
  })
end)
