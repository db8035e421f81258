-- Queues: one list per lane, priority and host, and rings of hosts that take turns.
--
-- `queue` lists hold work in its order; `front` lists hold what was leased before and comes back (always
-- first, in LIFO lanes too). A ring is the list of hosts with work at one priority of one lane. A host with
-- work stands in the ring exactly once, or is parked (host.lua).
--
-- A record starts with a kind byte: 0 (2: unfiltered, 4: another visit of a page with a record) = never leased: fingerprint (8 bytes), payload; 6: the same with the digest
-- of a text (8 bytes, see changed.lua) before the payload; 1 = leased before:
-- id (two 4-byte halves), silent losses (1), attempts (3), strikes (1), and the first record. Only this file and lease.lua look
-- inside.

local Queue = {}

-- `strikes`: how often its worker died after it was sent; `losses`: how often before that was reported.
local function again(id, attempts, strikes, first, losses)
  return struct.pack('>BI4I4BI3B', 1, floor(id / 4294967296), id % 4294967296, min(losses or 0, 255), min(attempts, 16777215),
    min(strikes, 255)) .. first
end

-- id (0: none yet), attempts, strikes, first record, silent losses
local function parts(record)
  if byte(record) ~= 1 then return 0, 0, 0, record, 0 end
  local _, high, low, losses, attempts, strikes, rest = struct.unpack('>BI4I4BI3B', record)
  return high * 4294967296 + low, attempts, strikes, sub(record, rest), losses
end

-- Whether a record is one of ours: anything else in a queue becomes a dead letter.
local function sound(record)
  local kind, length = byte(record), #record
  if kind == 1 then kind, length = byte(record, 15), length - 14 end
  return (kind == 0 or kind == 2 or kind == 4) and length >= 9 or kind == 6 and length >= 17
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

-- m.front counts all records in front lists: mostly there are none, and no call has to look.
local function in_front(S, spot)
  return S.m.front > 0 and call('EXISTS', S.b .. K.front .. spot) == 1
end

-- Queues records of one lane, priority and host, in order.
function Queue.push(S, lane, priority, host, records)
  local spot = place(lane.id, priority, host)
  local length = call_chunked('RPUSH', S.b .. K.queue .. spot, records)
  if length == #records and not in_front(S, spot) then enter_ring(S, lane, priority, host) end
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
  S.m.front = S.m.front + 1
  journal(S, {lane.name, host, priority, record})
end

function Queue.delay(S, lane, priority, host, record, due)
  -- The number makes equal records distinct members, and keeps those of the same moment in order.
  S.m.id = S.m.id + 1
  call('ZADD', S.b .. K.delayed, due, pack(S.m.id, {lane.id, host, priority, record}))
  journal(S, {lane.name, host, priority, record, due})
end

-- Moves delayed requests that are due into their queues.
function Queue.due(S)
  local due = call('ZRANGEBYSCORE', S.b .. K.delayed, '-inf', S.now, 'LIMIT', 0, RECLAIM_MAX)
  if #due == 0 then return end
  call('ZREM', S.b .. K.delayed, unpack(due))
  for _, raw in ipairs(due) do
    local _, v = unpack_msg(raw)
    local lane = Lane.by_id(S, v[QUEUED.lane])
    if lane then
      count(S, lane.id .. '|d', -1)
      count(S, lane.id .. '|q', 1)
      Queue.push(S, lane, v[QUEUED.priority], v[QUEUED.host], {v[QUEUED.record]})
    end
  end
end

local function pop(S, lane, spot, n)
  local records = S.m.front > 0 and call('LPOP', S.b .. K.front .. spot, n)
  if not records then return call(lane.lifo and 'RPOP' or 'LPOP', S.b .. K.queue .. spot, n) or {} end
  S.m.front = S.m.front - #records
  if #records < n then
    local more = call(lane.lifo and 'RPOP' or 'LPOP', S.b .. K.queue .. spot, n - #records)
    if more then
      for i = 1, #more do records[#records + 1] = more[i] end
    end
  end
  return records
end

-- What was taken, column by column: a table per request would cost more than the request.
local function new_taken()
  return {n = 0, lane = {}, priority = {}, host = {}, record = {}}
end

local function put_taken(out, lane, priority, host, record)
  local n = out.n + 1
  out.n, out.lane[n], out.priority[n], out.host[n], out.record[n] = n, lane, priority, host, record
end

-- Whether each of these hosts has more work here; asked in one go, since mostly all have.
local function have_more(S, base, names)
  local queues, more = {}, {}
  for i, name in ipairs(names) do queues[i] = S.b .. K.queue .. base .. name end
  local number = #names > 0 and call('EXISTS', unpack(queues)) or 0
  for i, name in ipairs(names) do
    more[i] = number == #names or number > 0 and call('EXISTS', queues[i]) == 1 or in_front(S, base .. name)
  end
  return more
end

-- Gives each host its turns, one request a turn, until n are taken or nobody has more. Hosts found empty are marked
-- in `empty`; `free` says how many a host may still give, `got` counts what it gave. Returns how many, and whose turn did
-- not come in the last round.
local function take_turns(S, lane, priority, base, names, n, out, free, got, empty)
  local taken, turns, unserved = 0, names, {}
  while #turns > 0 and taken < n do
    local share = max(1, floor((n - taken) / #turns))
    local rest, batches, longest = {}, {}, 0
    for i, name in ipairs(turns) do
      local ask = min(share, free[name], n - taken)
      if ask == 0 then
        unserved[#unserved + 1] = name
      else
        local records = pop(S, lane, base .. name, ask)
        local count_got = #records
        taken, free[name], got[name] = taken + count_got, free[name] - count_got, (got[name] or 0) + count_got
        batches[i] = records
        if count_got > longest then longest = count_got end
        if count_got < ask then
          empty[name] = true
        elseif free[name] > 0 then
          rest[#rest + 1] = name
        end
      end
    end
    for round = 1, longest do
      for i, name in ipairs(turns) do
        local record = batches[i] and batches[i][round]
        if record then put_taken(out, lane, priority, name, record) end
      end
    end
    turns = rest
  end
  return taken, unserved
end

-- How many of a host's free slots this worker may take: where others wait for one and hold less, it leaves them some. A host with a
-- delay has one slot at a time, which nobody can hold on to.
local function left_over(S, name, host, room, group)
  local kept = S.kept[name]
  if not kept and (S.reserve == 0 or room == huge) or Host.paced(S, host, group) then return room end
  -- Of what the host has: a group that is stricter has fewer to give.
  local free = Host.capacity(S, name, host)
  if not kept then
    kept = min(S.reserve, free)
    S.kept[name], S.reserve = kept, S.reserve - kept
  end
  return max(0, min(room, free - kept))
end

-- Takes up to n requests of one lane into `out`: highest priority first, hosts of equal priority by turns. Returns how many.
function Queue.take(S, lane, n, out)
  local group, taken, full = Lane.group(S, lane.group), 0, false
  local most, hosts = Host.most(S, group), S.hosts
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
      local turns, waiting, free, got, empty, raised, yielded = {}, {}, {}, {}, {}, false, {}
      local shared, wanted = S.reserve > 0 or next(S.kept), n - taken
      for _, name in ipairs(names) do
        local host = hosts[name]
        -- No lane waits for a plain host, and nothing of it is kept.
        local easy, room, wake, own = most and host.plain, nil, nil, nil
        if easy then
          room = max(0, most - host.inflight)
        else
          room, wake, own = Host.room(S, name, host, lane, group)
        end
        if room == 0 then
          Host.park(S, name, host, lane, priority, wake, own)
        elseif not easy and Host.raise(S, name, host, lane, priority) then
          raised = true
        else
          if shared then room = left_over(S, name, host, room, group) end
          if room == 0 then
            yielded[#yielded + 1] = name
          elseif #turns >= wanted then
            waiting[#waiting + 1] = name
          else
            turns[#turns + 1], free[name] = name, room
          end
        end
      end
      -- Those not reached keep their place at the head of the ring.
      if #waiting > 0 then
        local reversed = {}
        for i = #waiting, 1, -1 do reversed[#reversed + 1] = waiting[i] end
        call('LPUSH', ring, unpack(reversed))
      end
      local base = lane.id .. ':' .. priority .. ':'
      if raised then
        -- Start again from the top; those met here keep their order.
        for i = #turns, 1, -1 do call('LPUSH', ring, turns[i]) end
        turns = {}
      end
      local gave, next_up = take_turns(S, lane, tonumber(priority), base, turns, n - taken, out, free, got, empty)
      taken = taken + gave
      -- Those whose turn did not come go before those whose did.
      local served, back, first = {}, {}, {}
      for _, name in ipairs(next_up) do first[name] = true end
      for _, name in ipairs(turns) do
        if not first[name] then next_up[#next_up + 1] = name end
      end
      for _, name in ipairs(next_up) do
        local host = hosts[name]
        if got[name] and most and host.plain then
          host.inflight = host.inflight + got[name]
          S.dirty[name] = true
        elseif got[name] then
          Host.occupy(S, name, host, group, lane.group, got[name])
          Host.took(S, name, host, lane, got[name])
        end
        if not empty[name] then served[#served + 1] = name end
      end
      local more = have_more(S, base, served)
      for i, name in ipairs(served) do
        if more[i] then
          if free[name] > 0 then
            back[#back + 1] = name
          else
            local room, wake, own = Host.room(S, name, hosts[name], lane, group)
            if room > 0 then
              yielded[#yielded + 1] = name
            else
              Host.park(S, name, hosts[name], lane, priority, wake, own, got[name])
            end
          end
        else
          empty[name] = true
        end
      end
      -- A host that has no more here goes on with what waits at lower priorities, as far as it has room.
      for name in pairs(empty) do
        if not hosts[name].plain then
          Host.took(S, name, hosts[name], lane, huge)
          Host.refresh(S, name, hosts[name])
        end
      end
      if #back > 0 then call('RPUSH', ring, unpack(back)) end
      if #yielded > 0 then call('RPUSH', ring, unpack(yielded)) end
      full = #back > 0 or #waiting > 0 or #yielded > 0
      if not full and call('EXISTS', ring) == 0 then
        call('ZREM', S.b .. K.priorities .. lane.id, priority)
      end
      -- What is left of these hosts is left to others.
      if gave == 0 and not raised and #yielded > 0 then break end
    end
  end
  if taken == n and not full and call('EXISTS', S.b .. K.priorities .. lane.id) == 0 then Lane.deactivate(S, lane) end
  return taken
end
