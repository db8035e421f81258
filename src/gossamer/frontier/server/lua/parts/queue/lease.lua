-- Leases: granting, ending, reclaiming, and what becomes of requests that kill their workers.
--
-- `leases` maps id -> lane id, host, priority, attempts, strikes, incarnation, nonce, alone, first record, and where they differ from
-- 0 and '' also silent losses, the group that counts it as its own on the host (packed one after the other, which costs less than a
-- table); `deadlines` orders ids by when they run out; `marks` holds, per id, 1
-- (sent) or 2 (response arrived) and the nonce it was said for. A permit is a lease with lane id '' that only holds a
-- slot of its host.

local Lease = {}

-- A stored lease as a table, for the paths that are not hot.
local function lease_table(raw)
  return {unpack_msg(raw)}
end

-- What was reported of a lease under this nonce: '1' sent, '2' response arrived, nil nothing.
local function mark_of(mark, nonce)
  return mark and sub(mark, 2) == nonce and sub(mark, 1, 1) or nil
end

local DEAD_DETAIL_MAX = 16384
local SILENT = 4 -- losses before a report that it was sent which count as one strike

-- Keeps a request that failed for good. v as in `leases`.
local function bury(S, group, lane_name, v, id, reason, detail)
  S.m.id = S.m.id + 1
  local dead = S.m.id
  call('HSET', S.b .. K.dead, dead, pack({
    group, lane_name, v[LEASE.host], v[LEASE.priority], v[LEASE.attempts], v[LEASE.strikes], reason, sub(detail or '', 1, DEAD_DETAIL_MAX), S.now, id, v[LEASE.record],
  }))
  local key = S.b .. K.dead_order .. group
  call('ZADD', key, S.now, dead)
  count(S, 'g|' .. group .. '|dead', 1)
  local policy = Lane.group(S, group)
  if policy and policy.max_dead > 0 and call('ZCARD', key) >= policy.max_dead then Lane.hold(S, group, 'dead_full') end
  return dead
end

-- One less is leased: a group with a page limit may have room again (`Lane.unhold_pages`).
local function fewer_leased(S, lane)
  local policy = Lane.group(S, lane.group)
  if policy and policy.max_pages > 0 then S.fewer_leased[lane.group] = true end
end

-- The request of a lease (v as in `leases`) leaves the hands of a worker; its slot is freed unless the response had arrived.
local function put_down(S, v, mark, unsent)
  local lane_id, incarnation = v[LEASE.lane_id], v[LEASE.incarnation]
  if mark ~= '2' then Host.free(S, v[LEASE.host], v[LEASE.nonce], lane_id, unsent, v[LEASE.counted_by]) end
  if v[LEASE.alone] == 1 then
    S.m.alone = max(0, S.m.alone - 1)
    call('HDEL', S.b .. K.alone, incarnation)
    if S.m.taster == incarnation then S.m.taster = '' end
  end
  local lane = lane_id ~= '' and Lane.by_id(S, lane_id)
  if lane then Daily.touch(S, lane.group) end
  if incarnation ~= S.incarnation then
    count(S, 'w|' .. incarnation, -1)
  else
    S.given_back = S.given_back + 1
  end
  if lane then count(S, lane.f.l, -1) end
  return lane
end

-- So many requests of a lane have left the hands of workers.
local function fewer_of(S, lane, n)
  count(S, lane.f.gl, -n)
  if lane.max_leased > 0 then S.wake_lanes[lane.id] = lane end
  fewer_leased(S, lane)
end

-- `marked`: something was reported of leases; looked up if nil.
local function drop_leases(S, ids, marked)
  if #ids == 0 then return end
  call_chunked('HDEL', S.b .. K.leases, ids)
  call_chunked('ZREM', S.b .. K.deadlines, ids)
  if marked == nil then marked = call('EXISTS', S.b .. K.marks) == 1 end
  if marked then call_chunked('HDEL', S.b .. K.marks, ids) end
end

local function open_change(S, group, by)
  count(S, 'g|' .. group .. '|open', by)
end

-- The request of a page has ended, for good or as a dead letter: what its list said of it, too.
local function text_ended(S, lane, record)
  local text = Changed.text(record)
  if text or lane.records and byte(record) ~= 2 then
    Changed.ended(S, lane, Seen.holder(S, lane), sub(record, 2, 9), text)
  end
end

-- Leases that ran out go back ahead of other work; what struck too often is set aside to be tried alone.
function Lease.reclaim(S, strikes_max)
  local due = call('ZRANGEBYSCORE', S.b .. K.deadlines, '-inf', S.now, 'LIMIT', 0, RECLAIM_MAX)
  if #due == 0 then return end
  -- In the order in which they were first leased; equal deadlines come sorted as text.
  table.sort(due, function(a, b) return tonumber(a) < tonumber(b) end)
  local raws = call('HMGET', S.b .. K.leases, unpack(due))
  local marks = call('HMGET', S.b .. K.marks, unpack(due))
  for i, id in ipairs(due) do
    if raws[i] then
      local v = lease_table(raws[i])
      local mark = mark_of(marks[i], v[LEASE.nonce])
      local lane = put_down(S, v, mark)
      if lane then
        fewer_of(S, lane, 1)
        count(S, lane.id .. '|expired', 1)
        -- A request may kill before it is reported as sent: many silent losses are suspect too. Orderly ends count for nothing.
        if mark then v[LEASE.strikes] = v[LEASE.strikes] + 1 else v[LEASE.losses] = (v[LEASE.losses] or 0) + 1 end
        local silent = (v[LEASE.losses] or 0) >= strikes_max * SILENT
        if v[LEASE.alone] == 1 and (mark or silent) then
          open_change(S, lane.group, -1)
          count(S, lane.id .. '|failed', 1)
          if lane.records then Pages.failed(S, lane, v) end
          if S.m.tx > 0 then text_ended(S, lane, v[LEASE.record]) end
          bury(S, lane.group, lane.name, v, id, 'poison', 'its lease ran out ' .. v[LEASE.strikes] + (v[LEASE.losses] or 0)
            .. ' times without a word from its worker, the last time while it was tried alone')
        else
          count(S, lane.id .. '|q', 1)
          if v[LEASE.strikes] >= strikes_max or silent then
            call('RPUSH', S.b .. K.suspects, pack({tonumber(id), v}))
            S.m.x = S.m.x + 1
            journal(S, {lane.name, v[LEASE.host], v[LEASE.priority], again(tonumber(id), v[LEASE.attempts], v[LEASE.strikes], v[LEASE.record], v[LEASE.losses])})
          else
            Queue.push_front(S, lane, v[LEASE.priority], v[LEASE.host], again(tonumber(id), v[LEASE.attempts], v[LEASE.strikes], v[LEASE.record], v[LEASE.losses]))
          end
        end
      end
    end
  end
  if S.m.tx > 0 then Seen.save(S) end
  drop_leases(S, due)
end

-- Ends leases. settle[i] = {id, nonce} for a page that is done and brought nothing, or {id, nonce, ending, delay ms, priority
-- or nil, reason, detail, feedback or false, items from, items count, group, data for lists (how many), lists or nil if the
-- outbox has the data, items kept elsewhere (how many) or nil}; items are args[from..], then the data for lists. `seen`: what the pages were like
-- (see Pages.settled). Returns one letter each: s or l; and the set of those lost.
function Lease.settle(S, incarnation, settle, args, default_group, seen)
  local n = #settle
  if n == 0 then return '', {} end
  local ids = {}
  for i = 1, n do ids[i] = settle[i][SETTLEMENT.id] end
  local raws = read_many(S.b .. K.leases, ids)
  local marked = call('EXISTS', S.b .. K.marks) == 1
  local marks = marked and read_many(S.b .. K.marks, ids) or {}
  local out, lost, ended, gone = {}, {}, {}, {}
  local hosts, asked, leases = {}, {}, {}
  local left, done = {}, {} -- by lane: how many, and how many of them are done and brought nothing
  local recorded, places, last = {}, nil, nil -- by lane with page records: which settlements; and those of the last such lane
  for i = 1, n do
    if raws[i] then
      local v = lease_table(raws[i])
      leases[i] = v
      if not asked[v[LEASE.host]] then
        asked[v[LEASE.host]] = true
        hosts[#hosts + 1] = v[LEASE.host]
      end
    end
  end
  Host.load(S, hosts)
  for i = 1, n do
    local s, id, v, held = settle[i], ids[i], leases[i], false
    if v and not ended[id] then
      local host, holder, nonce = v[LEASE.host], v[LEASE.incarnation], v[LEASE.nonce]
      if holder == incarnation and nonce == s[SETTLEMENT.nonce] then
        held = true
        out[i], ended[id], gone[#gone + 1] = 's', true, id
        if s[SETTLEMENT.feedback] then Host.learn(S, host, s[SETTLEMENT.feedback]) end
        local lane = put_down(S, v, mark_of(marks[i], nonce))
        if lane then
          left[lane] = (left[lane] or 0) + 1
          if lane.records and s[SETTLEMENT.ending] ~= 'retry' then
            if lane ~= last then
              places, last = recorded[lane] or {n = 0}, lane
              recorded[lane] = places
            end
            local at = places.n + 1
            places.n, places[at] = at, i
            if byte(v[LEASE.record]) == 2 then places.mixed = true end
          end
          if not s[SETTLEMENT.ending] or s[SETTLEMENT.ending] == 'done' and s[SETTLEMENT.items] == 0 and not s[SETTLEMENT.lists] and not s[SETTLEMENT.kept] then
            done[lane] = (done[lane] or 0) + 1
          else
            Lease.ended(S, lane, id, v, s, args)
          end
        end
      end
    end
    if not held then
      out[i] = 'l'
      lost[i] = true
      local group = s[SETTLEMENT.group] or default_group
      if Lane.group(S, group) then
        count(S, 'g|' .. group .. '|lost', 1)
        if s[SETTLEMENT.items] then count(S, 'g|' .. group .. '|refused_items', s[SETTLEMENT.items] + (s[SETTLEMENT.pushed] or 0)) end
      end
    end
  end
  for lane, number in pairs(left) do fewer_of(S, lane, number) end
  for lane, number in pairs(done) do
    count(S, lane.f.open, -number)
    count(S, lane.f.done, number)
    count(S, lane.f.pages, number)
  end
  drop_leases(S, gone, marked)
  if #gone > 0 then call('HINCRBY', S.b .. K.worker_settled, incarnation, #gone) end
  for lane, places in pairs(recorded) do Pages.settled(S, lane, places, leases, settle, seen) end
  if S.m.tx > 0 then
    for i = 1, n do
      local lane = out[i] == 's' and settle[i][SETTLEMENT.ending] ~= 'retry' and Lane.by_id(S, leases[i][LEASE.lane_id])
      if lane then text_ended(S, lane, leases[i][LEASE.record]) end
    end
    Seen.save(S)
  end
  return table.concat(out), lost
end

function Lease.ended(S, lane, id, v, s, args)
  local ending, group = s[SETTLEMENT.ending], lane.group
  if ending == 'retry' then
    -- A worker that tried it alone and lived clears it. It gets a new id with its next lease: what that attempt adds
    -- without filter is its own, not a repetition of what this one added.
    local record = again(0, v[LEASE.attempts], v[LEASE.alone] == 1 and 0 or v[LEASE.strikes], v[LEASE.record])
    local priority = s[SETTLEMENT.priority] or v[LEASE.priority]
    count(S, lane.id .. '|retried', 1)
    if s[SETTLEMENT.delay] > 0 then
      count(S, lane.id .. '|d', 1)
      Queue.delay(S, lane, priority, v[LEASE.host], record, S.now + s[SETTLEMENT.delay])
    else
      count(S, lane.id .. '|q', 1)
      Queue.push(S, lane, priority, v[LEASE.host], {record})
    end
  else
    open_change(S, group, -1)
    count(S, lane.id .. '|' .. ending, 1)
    if ending == 'failed' then bury(S, group, lane.name, v, id, s[SETTLEMENT.reason], s[SETTLEMENT.detail]) end
  end
  if ending == 'done' or ending == 'failed' then count(S, lane.f.pages, 1) end
  if s[SETTLEMENT.lists] then Lists.push(s[SETTLEMENT.lists], args, s[SETTLEMENT.first_item] + s[SETTLEMENT.items]) end
  if s[SETTLEMENT.kept] then count(S, 'g|' .. group .. '|items', s[SETTLEMENT.kept]) end
  if s[SETTLEMENT.items] > 0 then Lease.items(S, group, args, s[SETTLEMENT.first_item], s[SETTLEMENT.items]) end
end

-- Appends args[from..] to the items of a group.
function Lease.items(S, group, args, from, n)
  Items.append(S, group, args, from, n)
  count(S, 'g|' .. group .. '|items', n)
  local policy = Lane.group(S, group)
  if not policy then return end
  Items.make_room(S, group, policy, n)
  if Items.full(S, group, policy) then Lane.hold(S, group, 'items_full') end
end

-- The response arrived: frees slots once. fetched[i] = {id, nonce, feedback or false}.
function Lease.fetched(S, incarnation, fetched)
  for _, f in ipairs(fetched) do
    local raw = call('HGET', S.b .. K.leases, f[FETCHED.id])
    if raw then
      local lane_id, host, _, _, _, holder, nonce, _, _, _, counted = unpack_msg(raw)
      if holder == incarnation and nonce == f[FETCHED.nonce] and mark_of(call('HGET', S.b .. K.marks, f[FETCHED.id]), nonce) ~= '2' then
        call('HSET', S.b .. K.marks, f[FETCHED.id], '2' .. nonce)
        if f[FETCHED.feedback] then Host.learn(S, host, f[FETCHED.feedback]) end
        Host.free(S, host, nonce, lane_id, false, counted)
      end
    end
  end
end

-- The download began: from now on a lost lease counts against the request. sent[i] = {id, nonce, ms since then where its host has a
-- delay}.
function Lease.sent(S, sent)
  if #sent == 0 then return end
  local ids, set = {}, {}
  for i, s in ipairs(sent) do ids[i] = s[SENT.id] end
  local raws = read_many(S.b .. K.leases, ids)
  local marks = read_many(S.b .. K.marks, ids)
  for i, s in ipairs(sent) do
    -- The nonce stands in the lease: a late worker must not overwrite what the present holder reported.
    if raws[i] and string.find(raws[i], s[SENT.nonce], 1, true) then
      if mark_of(marks[i], s[SENT.nonce]) ~= '2' then
        set[#set + 1] = s[SENT.id]
        set[#set + 1] = '1' .. s[SENT.nonce]
      end
      if s[SENT.age] then
        local lane_id, host = unpack_msg(raws[i])
        Host.sent(S, host, s[SENT.nonce], S.now - s[SENT.age], lane_id)
      end
    end
  end
  if #set > 0 then call_chunked('HSET', S.b .. K.marks, set) end
end

-- Something in a queue that is no record of ours: kept as a dead letter, never handed out.
local function bury_garbage(S, lane, priority, host, record)
  count(S, lane.f.q, -1)
  count(S, lane.f.open, -1)
  count(S, lane.id .. '|failed', 1)
  bury(S, lane.group, lane.name, {lane.id, host, priority, 0, 0, '', '', 0, record}, 0, 'garbage', 'not a record of the frontier')
  Host.free(S, host, S.nonce, lane.id, true, S.counted and S.counted[lane.group .. '|' .. host] and lane.group or nil)
  fewer_leased(S, lane)
  S.looked = LOOK_MAX -- what lies behind it may be ready: the worker is asked to call again
  Lane.activate(S, lane)
end

-- Writes leases for what was taken; answers id, lane, host, priority, attempt, flags (1: alone, 2: its host has a delay) of each in
-- one flat list, the first records, and the ids as text.
function Lease.grant(S, call_info, taken, alone)
  local heads, records, ids, book, order, per_lane = {}, {}, {}, {}, {}, {}
  local deadline = S.now + call_info.lease_ms
  local incarnation, nonce, number = call_info.incarnation, call_info.nonce, S.m.id
  local h, n = 0, 0
  alone = alone or 0
  for i = 1, taken.n do
    local lane, host, priority, record = taken.lane[i], taken.host[i], taken.priority[i], taken.record[i]
    if not sound(record) then
      S.m.id = number
      bury_garbage(S, lane, priority, host, record)
      number = S.m.id
    else
      local id, attempts, strikes, first, losses = parts(record)
      if id == 0 then
        number = number + 1
        id = number
        if byte(first) == 6 and not lane.records then
          local book = Seen.of(S, lane)
          if book then first = Changed.newest(S, lane, host, book, first) end
        end
      end
      local text = format('%d', id)
      n = n + 1
      heads[h + 1], heads[h + 2], heads[h + 3], heads[h + 4], heads[h + 5], heads[h + 6] =
        id, lane.name, host, priority, attempts + 1, S.paced and S.paced[lane.group .. '|' .. host] and alone + 2 or alone
      h = h + 6
      records[n], ids[n] = byte(first) == 6 and Changed.plain(first) or first, text
      local counted = S.counted and S.counted[lane.group .. '|' .. host]
      local packed
      if counted then
        packed = pack(lane.id, host, priority, attempts + 1, strikes, incarnation, nonce, alone, first, losses, lane.group)
      elseif losses > 0 then
        packed = pack(lane.id, host, priority, attempts + 1, strikes, incarnation, nonce, alone, first, losses)
      else
        packed = pack(lane.id, host, priority, attempts + 1, strikes, incarnation, nonce, alone, first)
      end
      book[2 * n - 1], book[2 * n] = text, packed
      order[2 * n - 1], order[2 * n] = deadline, text
      per_lane[lane] = (per_lane[lane] or 0) + 1
    end
  end
  S.m.id = number
  if n > 0 then
    call_chunked('HSET', S.b .. K.leases, book)
    call_chunked('ZADD', S.b .. K.deadlines, order)
    for lane, by in pairs(per_lane) do
      count(S, lane.f.q, -by)
      count(S, lane.f.l, by)
      count(S, lane.f.gl, by)
    end
    count(S, 'w|' .. incarnation, n)
  end
  return heads, records, ids
end

-- Something may become ready at this time.
local function look_again(S, at)
  if not S.taste_at or at < S.taste_at then S.taste_at = at end
end

-- When something may become ready: the earliest wake, delayed request or deadline.
function Lease.ready_in(S)
  flush_hosts(S)
  if S.looked >= LOOK_MAX then return 0 end
  local soonest = S.taste_at
  for _, key in ipairs({K.wake, K.delayed, K.deadlines}) do
    local first = call('ZRANGE', S.b .. key, 0, 0, 'WITHSCORES')
    if first[2] then
      local at = tonumber(first[2])
      if not soonest or at < soonest then soonest = at end
    end
  end
  return soonest and max(0, soonest - S.now)
end
