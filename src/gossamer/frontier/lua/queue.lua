-- Queues: one list per lane, priority and host, and rings of hosts that take turns.
--
-- `queue` lists hold work in its order; `front` lists hold what was leased before and comes back (always
-- first, in LIFO lanes too). A ring is the list of hosts with work at one priority of one lane. A host with
-- work stands in the ring exactly once, or is parked (host.lua).
--
-- A record starts with a kind byte: 0 = never leased: fingerprint (8 bytes), payload; 1 = leased before:
-- id (two 4-byte halves), attempts (4), strikes (1), and the first record. Only this file and lease.lua look inside.

local Queue = {}

local function again(id, attempts, strikes, first)
  return struct.pack('>BI4I4I4B', 1, floor(id / 4294967296), id % 4294967296, attempts, min(strikes, 255)) .. first
end

-- id (0: none yet), attempts, strikes, first record
local function parts(record)
  if byte(record) ~= 1 then return 0, 0, 0, record end
  local _, high, low, attempts, strikes, rest = struct.unpack('>BI4I4I4B', record)
  return high * 4294967296 + low, attempts, strikes, sub(record, rest)
end

-- Whether a record is one of ours: anything else in a queue becomes a dead letter.
local function sound(record)
  local kind, length = byte(record), #record
  return (kind == 0 and length >= 9) or (kind == 1 and length >= 23 and byte(record, 15) == 0)
end

local function place(lane_id, priority, host)
  return lane_id .. ':' .. priority .. ':' .. host
end

enter_ring = function(S, lane, priority, host)
  if call('RPUSH', S.b .. K.ring .. lane.id .. ':' .. priority, host) == 1 then
    call('ZADD', S.b .. K.priorities .. lane.id, -priority, priority)
    Lane.activate(S, lane)
  end
end

-- Queues records of one lane, priority and host, in order.
function Queue.push(S, lane, priority, host, records)
  local spot = place(lane.id, priority, host)
  local length = call_chunked('RPUSH', S.b .. K.queue .. spot, records)
  if length == #records and call('EXISTS', S.b .. K.front .. spot) == 0 then enter_ring(S, lane, priority, host) end
  if S.m.snap > 0 then
    for _, record in ipairs(records) do journal(S, {lane.name, host, priority, record}) end
  end
end

-- Queues one record ahead of the others of its lane, priority and host.
function Queue.push_front(S, lane, priority, host, record)
  local spot = place(lane.id, priority, host)
  if call('RPUSH', S.b .. K.front .. spot, record) == 1 and call('EXISTS', S.b .. K.queue .. spot) == 0 then
    enter_ring(S, lane, priority, host)
  end
  journal(S, {lane.name, host, priority, record})
end

function Queue.delay(S, lane, priority, host, record, due)
  -- The number makes equal records distinct members.
  S.m.id = S.m.id + 1
  call('ZADD', S.b .. K.delayed, due, pack({lane.id, host, priority, record, S.m.id}))
  journal(S, {lane.name, host, priority, record, due})
end

-- Moves delayed requests that are due into their queues.
function Queue.due(S)
  local due = call('ZRANGEBYSCORE', S.b .. K.delayed, '-inf', S.now, 'LIMIT', 0, RECLAIM_MAX)
  if #due == 0 then return end
  call('ZREM', S.b .. K.delayed, unpack(due))
  for _, raw in ipairs(due) do
    local v = unpack_msg(raw)
    local lane = Lane.by_id(S, v[1])
    if lane then
      count(S, lane.id .. '|d', -1)
      count(S, lane.id .. '|q', 1)
      Queue.push(S, lane, v[3], v[2], {v[4]})
    end
  end
end

local function pop(S, lane, spot, n)
  local records = call('LPOP', S.b .. K.front .. spot, n) or {}
  if #records < n then
    local more = call(lane.lifo and 'RPOP' or 'LPOP', S.b .. K.queue .. spot, n - #records)
    if more then
      for i = 1, #more do records[#records + 1] = more[i] end
    end
  end
  return records
end

-- Takes up to n requests of one lane into `out` as {lane, priority, host, record}: highest priority first,
-- hosts of equal priority by turns. Returns how many.
function Queue.take(S, lane, n, out)
  local group, taken = Lane.group(S, lane.group), 0
  while taken < n and S.looked < LOOK_MAX do
    local priority = call('ZRANGE', S.b .. K.priorities .. lane.id, 0, 0)[1]
    if not priority then
      Lane.deactivate(S, lane)
      break
    end
    local ring = S.b .. K.ring .. lane.id .. ':' .. priority
    local names = call('LPOP', ring, min(64, max(8, n - taken)))
    if not names then
      call('ZREM', S.b .. K.priorities .. lane.id, priority)
    else
      S.looked = S.looked + #names
      Host.load(S, names)
      local turns, waiting = {}, {}
      for _, name in ipairs(names) do
        local host = S.hosts[name]
        local free, wake = Host.capacity(S, host, group)
        if free == 0 then
          Host.park(S, name, host, lane.id, priority, wake)
        elseif #turns >= n - taken then
          waiting[#waiting + 1] = name
        else
          turns[#turns + 1] = {name = name, host = host, free = free, spot = place(lane.id, priority, name), got = 0}
        end
      end
      -- Those not reached keep their place at the head of the ring.
      if #waiting > 0 then
        local reversed = {}
        for i = #waiting, 1, -1 do reversed[#reversed + 1] = waiting[i] end
        call('LPUSH', ring, unpack(reversed))
      end
      local back = {}
      while #turns > 0 and taken < n do
        local share = max(1, floor((n - taken) / #turns))
        local rest, batches, longest = {}, {}, 0
        for _, turn in ipairs(turns) do
          local ask = min(share, turn.free, n - taken)
          if ask == 0 then
            rest[#rest + 1] = turn
          else
            local records = pop(S, lane, turn.spot, ask)
            taken, turn.free, turn.got = taken + #records, turn.free - #records, turn.got + #records
            batches[#batches + 1] = {turn.name, records}
            longest = max(longest, #records)
            if #records < ask then
              turn.empty = true
            elseif turn.free > 0 then
              rest[#rest + 1] = turn
            end
            if turn.empty or turn.free == 0 then back[#back + 1] = turn end
          end
        end
        for i = 1, longest do
          for _, batch in ipairs(batches) do
            if batch[2][i] then out[#out + 1] = {lane, priority, batch[1], batch[2][i]} end
          end
        end
        turns = rest
      end
      for _, turn in ipairs(turns) do back[#back + 1] = turn end
      for _, turn in ipairs(back) do
        if turn.got > 0 then Host.occupy(S, turn.name, turn.host, group, turn.got) end
        local more = not turn.empty
          and (call('EXISTS', S.b .. K.queue .. turn.spot) == 1 or call('EXISTS', S.b .. K.front .. turn.spot) == 1)
        if more then
          local free, wake = Host.capacity(S, turn.host, group)
          if free == 0 then
            Host.park(S, turn.name, turn.host, lane.id, priority, wake)
          else
            call('RPUSH', ring, turn.name)
          end
        end
      end
      if call('EXISTS', ring) == 0 then call('ZREM', S.b .. K.priorities .. lane.id, priority) end
    end
  end
  if taken == n and call('EXISTS', S.b .. K.priorities .. lane.id) == 0 then Lane.deactivate(S, lane) end
  return taken
end
