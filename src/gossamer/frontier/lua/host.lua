-- Hosts: delay, concurrency and blocks for the whole crawl.
--
-- A host that is at rest, and of which nothing was learned, has no record. A host that may not be asked now is parked: it
-- leaves the rings of its lanes when it is met there and returns when a slot is freed or its wake time comes, so that
-- it costs nothing in between. Its priorities in a lane wait in a sorted set, and only the best of them returns to its
-- ring: a host with a thousand priorities costs no more than one with a single one. `parked` names the lanes.

local Host = {}

function Host.default(S)
  local policy = S.config.host
  if not policy then
    policy = unpack_msg(call('HGET', S.b .. K.host_policy, ''))
    S.config.host = policy
  end
  return policy
end

-- What a host is unless its record says otherwise. `parked` is replaced, never changed in place.
local NONE = {}
local AT_REST = {
  __index = {
    inflight = 0, next = 0, blocked = 0, throttles = 0, delay = 0, floor = 0, paused = '', why = '', parked = NONE,
  },
}

-- A record is a plain number while only the requests in flight differ from rest, which is the usual case; `plain` spares
-- such a host all other questions. Whoever changes anything else goes through `touch`.
local function decode(raw)
  if not raw then return setmetatable({inflight = 0, plain = true}, AT_REST) end
  local inflight = tonumber(raw)
  if inflight then return setmetatable({inflight = inflight, plain = true}, AT_REST) end
  local v = unpack_msg(raw)
  return setmetatable({
    inflight = v[1], next = v[2], blocked = v[3], throttles = v[4], delay = v[5], floor = v[6], paused = v[7],
    why = v[8], parked = v[9], policy = v[10],
  }, AT_REST)
end

local function touch(S, name, host)
  host.plain = false
  S.dirty[name] = true
end

function Host.load(S, names)
  local missing = {}
  for _, name in ipairs(names) do
    if not S.hosts[name] then missing[#missing + 1] = name end
  end
  if #missing == 0 then return end
  local raws = read_many(S.b .. K.hosts, missing)
  for i, name in ipairs(missing) do S.hosts[name] = decode(raws[i]) end
end

function Host.get(S, name)
  local host = S.hosts[name]
  if not host then
    host = decode(call('HGET', S.b .. K.hosts, name))
    S.hosts[name] = host
  end
  return host
end

flush_hosts = function(S)
  local set, gone = {}, {}
  for name in pairs(S.dirty) do
    local h = S.hosts[name]
    local plain = h.plain or h.next <= S.now and h.blocked <= S.now and h.paused == '' and not h.policy and h.delay == 0
      and h.floor == 0 and h.throttles == 0 and #h.parked == 0
    if not plain then
      local rest = max(h.next, h.blocked)
      -- Looked at once more when its time has come, so that a record does not outlive its use.
      if h.inflight == 0 and #h.parked == 0 and rest > S.now and S.wakes[name] == nil then S.wakes[name] = rest end
      set[#set + 1] = name
      set[#set + 1] = pack({h.inflight, h.next, h.blocked, h.throttles, h.delay, h.floor, h.paused, h.why, h.parked, h.policy})
    elseif h.inflight == 0 then
      gone[#gone + 1] = name
    else
      set[#set + 1] = name
      set[#set + 1] = h.inflight
    end
  end
  if #set > 0 then call_chunked('HSET', S.b .. K.hosts, set) end
  if #gone > 0 then call_chunked('HDEL', S.b .. K.hosts, gone) end
  S.dirty = {}
  local later, never = {}, {}
  for name, wake in pairs(S.wakes) do
    if wake then
      later[#later + 1] = wake
      later[#later + 1] = name
    else
      never[#never + 1] = name
    end
  end
  if #later > 0 then call_chunked('ZADD', S.b .. K.wake, later) end
  if #never > 0 then call_chunked('ZREM', S.b .. K.wake, never) end
  S.wakes = {}
end

function Host.policy(S, host)
  return host.policy or Host.default(S)
end

function Host.delay(S, host, group)
  local policy = Host.policy(S, host)
  local delay = max(policy.delay, host.floor)
  if policy.adaptive then delay = max(delay, host.delay, policy.min_delay) end
  if group and group.delay > delay then delay = group.delay end
  return delay
end

-- How many requests may go to the host now, and when to look again if none (nil: when a slot is freed or
-- an operator resumes it).
function Host.capacity(S, host, group)
  if host.plain and not (group and (group.delay > 0 or group.concurrency > 0)) then
    local policy = Host.default(S)
    if policy.delay == 0 and not policy.adaptive then
      if policy.concurrency == 0 then return huge end
      return max(0, policy.concurrency - host.inflight)
    end
  end
  if host.paused ~= '' then return 0 end
  local wait = max(host.blocked, host.next)
  if wait > S.now then return 0, wait end
  local limit = Host.policy(S, host).concurrency
  if group and group.concurrency > 0 and (limit == 0 or group.concurrency < limit) then limit = group.concurrency end
  local free = limit == 0 and huge or limit - host.inflight
  if free <= 0 then return 0 end
  if Host.delay(S, host, group) > 0 then return 1 end
  return free
end

local function waits_in(host, lane_id)
  for _, id in ipairs(host.parked) do
    if id == lane_id then return true end
  end
  return false
end

function Host.park(S, name, host, lane_id, priority, wake)
  call('ZADD', S.b .. K.waiting .. lane_id .. ':' .. name, -priority, priority)
  if not waits_in(host, lane_id) then
    local parked = {lane_id}
    for _, id in ipairs(host.parked) do parked[#parked + 1] = id end
    host.parked = parked
  end
  touch(S, name, host)
  if wake then S.wakes[name] = wake end
end

-- A priority of this lane that waits and is better than the one given; nil if none.
function Host.better(S, name, host, lane_id, priority)
  if #host.parked == 0 or not waits_in(host, lane_id) then return nil end
  local best = call('ZRANGE', S.b .. K.waiting .. lane_id .. ':' .. name, 0, 0)[1]
  return best and tonumber(best) > tonumber(priority) and best or nil
end

function Host.occupy(S, name, host, group, by)
  host.inflight = host.inflight + by
  local delay = Host.delay(S, host, group)
  if delay > 0 then
    host.next = S.now + delay
    host.plain = false
  end
  S.dirty[name] = true
end

local enter_ring -- queue.lua

-- Puts a parked host back into the ring of its best priority in each lane if it may be asked again; else sets its next
-- look.
function Host.refresh(S, name, host)
  if #host.parked == 0 then return end
  local free, wake = Host.capacity(S, host)
  if free > 0 then
    local kept = {}
    S.dirty[name] = true
    S.wakes[name] = false
    for _, lane_id in ipairs(host.parked) do
      local key, lane = S.b .. K.waiting .. lane_id .. ':' .. name, Lane.by_id(S, lane_id)
      if not lane then
        call('UNLINK', key)
      else
        local best = call('ZPOPMIN', key)[1]
        if best then enter_ring(S, lane, best, name) end
        if best and call('EXISTS', key) == 1 then kept[#kept + 1] = lane_id end
      end
    end
    host.parked = #kept > 0 and kept or NONE
  elseif wake then
    S.wakes[name] = wake
  end
end

function Host.free(S, name)
  local host = Host.get(S, name)
  host.inflight = max(0, host.inflight - 1)
  S.dirty[name] = true
  Host.refresh(S, name, host)
end

function Host.wake_due(S)
  local due = call('ZRANGEBYSCORE', S.b .. K.wake, '-inf', S.now, 'LIMIT', 0, RECLAIM_MAX)
  if #due == 0 then return end
  Host.load(S, due)
  call('ZREM', S.b .. K.wake, unpack(due))
  for _, name in ipairs(due) do
    S.dirty[name] = true
    Host.refresh(S, name, S.hosts[name])
  end
end

function Host.block(S, name, untl, why)
  local host = Host.get(S, name)
  host.blocked, host.why = untl, why
  touch(S, name, host)
  Host.refresh(S, name, host)
end

-- What a response says about its host. feedback = {verdict, latency ms or -1, retry-after ms or -1}.
function Host.learn(S, name, feedback)
  local host, verdict = Host.get(S, name), feedback[1]
  local policy = Host.policy(S, host)
  if verdict == 'throttled' then
    -- Answers to requests that were under way together are one refusal, not several in a row.
    if host.blocked <= S.now then host.throttles = host.throttles + 1 end
    local wait = feedback[3]
    if wait < 0 then wait = policy.block_base * 2 ^ min(max(host.throttles - 1, 0), 20) end
    local untl = S.now + min(wait, policy.block_max)
    if untl > host.blocked then Host.block(S, name, untl, 'throttled') end
    touch(S, name, host)
  elseif verdict == 'ok' and host.throttles > 0 and host.blocked <= S.now then
    host.throttles = 0
    touch(S, name, host)
  end
  if policy.adaptive and feedback[2] >= 0 then
    local old = max(host.delay, policy.min_delay, policy.delay)
    local new = (old + feedback[2] / policy.target) / 2
    new = max(policy.min_delay, min(policy.max_delay, floor(new)))
    if verdict == 'ok' or new > old then host.delay = new else host.delay = old end
    touch(S, name, host)
  end
end
