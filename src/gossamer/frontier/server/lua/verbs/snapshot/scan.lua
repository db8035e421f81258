-- scan: pages through what a snapshot needs. `begin` starts a journal of all that is queued from then on, each page keeps
-- it for a while longer, `journal` pages through it, `end` stops it when no other snapshot needs it.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {what (begin|leased|delayed|suspect|newer|page_texts|hosts|list|dead|journal|end), cursor, limit, key, keep_ms, snapshot
--            (its name; '' for a page without a journal)}
-- Returns {msgpack {cursor ('' at the end), heads[], now, length of the journal}, records...}; heads: leased, suspect, delayed,
--            list, journal, newer (key: group) {lane, host, priority, due ms or 0, id or 0, attempts, strikes}, hosts {name, blocked ms, why,
--            paused, crawl delay, policy or false}, dead {id, group, lane, host, priority, attempts, strikes, reason,
--            detail, at ms}; page_texts (key: lane of a memory or with page records) none, and records of 24 bytes: fingerprint, digest of the last fetch and of what
--            is under way (zeros: none)
-- Cost    O(limit)

local function scan_lease(S, heads, records, id, v)
  local lane = v[LEASE.lane_id] ~= '' and Lane.by_id(S, v[LEASE.lane_id])
  if lane then
    heads[#heads + 1] = {lane.name, v[LEASE.host], v[LEASE.priority], 0, tonumber(id), v[LEASE.attempts], v[LEASE.strikes]}
    records[#records + 1] = v[LEASE.record]
  end
end

local Scans = {}

function Scans.leased(S, h, heads, records)
  local page = call('HSCAN', S.b .. K.leases, h.cursor, 'COUNT', h.limit)
  for i = 1, #page[2], 2 do scan_lease(S, heads, records, page[2][i], lease_table(page[2][i + 1])) end
  return page[1] == '0' and '' or page[1]
end

function Scans.delayed(S, h, heads, records)
  local page = call('ZSCAN', S.b .. K.delayed, h.cursor, 'COUNT', h.limit)
  for i = 1, #page[2], 2 do
    local _, v = unpack_msg(page[2][i])
    local lane = Lane.by_id(S, v[QUEUED.lane])
    if lane then
      local id, attempts, strikes, first = parts(v[QUEUED.record])
      heads[#heads + 1] = {lane.name, v[QUEUED.host], v[QUEUED.priority], tonumber(page[2][i + 1]), id, attempts, strikes}
      records[#records + 1] = first
    end
  end
  return page[1] == '0' and '' or page[1]
end

function Scans.suspect(S, h, heads, records)
  for _, raw in ipairs(call('LRANGE', S.b .. K.suspects, 0, -1)) do
    local s = unpack_msg(raw)
    scan_lease(S, heads, records, s[SUSPECT.id], s[SUSPECT.lease])
  end
  return ''
end

-- Requests that wait for another one of their page.
function Scans.newer(S, h, heads, records)
  return Changed.scan_waiting(S, h.key, h.cursor, h.limit, heads, records)
end

function Scans.page_texts(S, h, _, records)
  local lane = Lane.by_name(S, h.key)
  local holder = lane and S.m.tx > 0 and Seen.holder(S, lane)
  if not holder then return '' end
  local cursor, pages = Changed.scan(holder, h.cursor, h.limit)
  for i, page in ipairs(pages) do records[i + 1] = page end
  return cursor
end

function Scans.hosts(S, h, heads)
  local page = call('HSCAN', S.b .. K.hosts, h.cursor, 'COUNT', h.limit)
  for i = 1, #page[2], 2 do
    local host = Host.get(S, page[2][i])
    if host.policy or host.blocked > S.now or host.paused ~= '' or host.floor > 0 then
      heads[#heads + 1] = {page[2][i], max(0, host.blocked - S.now), host.why, host.paused, host.floor, host.policy or false}
    end
  end
  return page[1] == '0' and '' or page[1]
end

-- One queue, from the end that does not move under the reader: pops happen at the left of FIFO lists (so it is read from
-- the right, newest first) and at the right of LIFO lists (so it is read from the left).
function Scans.list(S, h, heads, records)
  local kind, lane_id, priority, host = string.match(h.key, '^([qf]):(%d+):(-?%d+):(.*)$')
  local lane = kind and Lane.by_id(S, lane_id)
  if not lane then return '' end
  local key = S.b .. (kind == 'q' and K.queue or K.front) .. lane_id .. ':' .. priority .. ':' .. host
  local at, page = tonumber(h.cursor), nil
  if lane.lifo and kind == 'q' then
    page = call('LRANGE', key, at, at + h.limit - 1)
  else
    local up = call('LRANGE', key, -at - h.limit, -at - 1)
    page = {}
    for i = #up, 1, -1 do page[#page + 1] = up[i] end
  end
  for _, record in ipairs(page) do
    local id, attempts, strikes, first = parts(record)
    heads[#heads + 1] = {lane.name, host, tonumber(priority), 0, id, attempts, strikes}
    records[#records + 1] = first
  end
  return #page < h.limit and '' or format('%d', at + h.limit)
end

function Scans.journal(S, h, heads, records)
  local at = tonumber(h.cursor)
  local page = call('LRANGE', S.b .. K.journal, at, at + h.limit - 1)
  for _, raw in ipairs(page) do
    local v = unpack_msg(raw)
    local id, attempts, strikes, first = parts(v[QUEUED.record])
    heads[#heads + 1] = {v[QUEUED.lane], v[QUEUED.host], tonumber(v[QUEUED.priority]), v[QUEUED.due] or 0, id, attempts, strikes}
    records[#records + 1] = first
  end
  return #page < h.limit and '' or format('%d', at + h.limit)
end

function Scans.dead(S, h, heads, records)
  local page = call('HSCAN', S.b .. K.dead, h.cursor, 'COUNT', h.limit)
  for i = 1, #page[2], 2 do
    local v = unpack_msg(page[2][i + 1])
    heads[#heads + 1] = {
      tonumber(page[2][i]), v[DEAD.group], v[DEAD.lane], v[DEAD.host], v[DEAD.priority], v[DEAD.attempts], v[DEAD.strikes],
      v[DEAD.reason], v[DEAD.detail], v[DEAD.at],
    }
    records[#records + 1] = v[DEAD.record]
  end
  return page[1] == '0' and '' or page[1]
end

-- The journal lasts as long as the longest of the snapshots that run.
local function keep_journal(S)
  local key = S.b .. K.snapshots
  call('ZREMRANGEBYSCORE', key, '-inf', S.now)
  local last = call('ZRANGE', key, -1, -1, 'WITHSCORES')
  if last[2] then
    call('HSET', S.b .. K.meta, 'snap', last[2])
  else
    call('HDEL', S.b .. K.meta, 'snap')
    call('UNLINK', S.b .. K.journal)
  end
end

verb('scan', {'allow-oom'}, function(S, h)
  if h.what ~= 'begin' and h.what ~= 'end' and not Scans[h.what] then return fail('SNAPSHOT', 'has no part ' .. h.what) end
  if h.snapshot ~= '' then
    local key = S.b .. K.snapshots
    local until_ms = tonumber(call('ZSCORE', key, h.snapshot))
    if h.what == 'end' then
      call('ZREM', key, h.snapshot)
    elseif h.what == 'begin' or (until_ms and until_ms > S.now) then
      call('ZADD', key, S.now + h.keep_ms, h.snapshot)
    else
      return fail('SNAPSHOT', 'was silent too long, and what moved meanwhile is not known. Export again')
    end
    keep_journal(S)
  end
  local heads, records, cursor = {}, {''}, ''
  if Scans[h.what] then cursor = Scans[h.what](S, h, heads, records) end
  records[1] = pack({cursor, heads, S.now, call('LLEN', S.b .. K.journal)})
  return records
end)
