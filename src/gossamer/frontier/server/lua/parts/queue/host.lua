-- Hosts: delay, concurrency and blocks for the whole crawl.
--
-- A host that is at rest, and of which nothing was learned, has no record.
--
-- The delay counts from send to send. `last` is when the host was sent its last request, `gap` the delay that the group of that
-- request asks for. While a request is leased and not yet reported as sent, `awaits` is the nonce of its lease and its group (what is
-- leased with it in one call has the same nonce, and may be of a group without a delay) and `till` the end of its send window: nothing else is leased for the host before it is reported, given back, or its window and the delay after
-- it have passed.
--
-- `floor` is the delay that the host's robots.txt asks for. It counts for groups that heed it, unless the host has a policy that goes
-- before it; `heeds` says whether the group of the last request does. `delay` is what an adaptive delay has come to, 0 before the first
-- answer.
--
-- Those that wait for a host, stages of groups (`stage|group`), stand in its line by the host's own count of turns: `line` is where it
-- is, and who was served stands behind it by one over the group's weight. Passes of different stages could not be compared.
-- `offers` are slots that are free and kept for a while for lanes whose turn it is and whose workers have yet to call: lane id ->
-- {number, until, priority}. Within a call, S.claims has the same of lanes that the caller serves.
--
-- `answers` has a bit for each of the host's last answers, the newest first, 1 for one that said it was not available (503 without
-- Retry-After) or asked to be left alone; `refused` is when the last of these came. It is kept only while there is one among them.
--
-- `own` counts, for groups that are stricter than a host, what they have in flight there: `group|host` -> number, and a p behind it
-- while the group waits for its own requests to end.

local Host = {}

function Host.default(S)
  local policy = S.config.host
  if not policy then
    policy = unpack_msg(call('HGET', S.b .. K.host_policy, ''))
    S.config.host = policy
  end
  return policy
end

local OFFER = 1000 -- ms for which a free slot is kept for the group whose turn it is
local WAKE_MAX = 8 -- groups of one host that are woken at once
local ANSWERS = 10 -- last answers of a host that are kept
local REFUSALS = 5 -- so many 503 among them block the host
local ANSWERS_KEPT = 600000 -- ms from the last refusal until they are forgotten

-- What a host is unless its record says otherwise. `parked`: how many wait in its line.
local AT_REST = {
  __index = {
    inflight = 0, last = 0, blocked = 0, throttles = 0, delay = 0, floor = 0, paused = '', why = '', parked = 0, policy = false,
    gap = 0, awaits = '', till = 0, line = 0, offers = false, heeds = false, answers = 0, refused = 0,
  },
}

-- A record is a plain number while only the requests in flight differ from rest, which is the usual case; `plain` spares
-- such a host all other questions. Whoever changes anything else goes through `touch`.
local function decode(raw, now)
  if not raw then return setmetatable({inflight = 0, plain = true}, AT_REST) end
  local inflight = tonumber(raw)
  if inflight then return setmetatable({inflight = inflight, plain = true}, AT_REST) end
  local v = unpack_msg(raw)
  local host = setmetatable({
    inflight = v[1], last = v[2], blocked = v[3], throttles = v[4], delay = v[5], floor = v[6], paused = v[7],
    why = v[8], parked = v[9], policy = v[10], gap = v[11], awaits = v[12], till = v[13], line = v[14],
    offers = v[15], heeds = v[16], answers = v[17], refused = v[18],
  }, AT_REST)
  if host.answers > 0 and host.refused + ANSWERS_KEPT <= now then host.answers = 0 end
  for id, offer in pairs(host.offers or {}) do
    if offer[2] <= now then host.offers[id] = nil end
  end
  if host.offers and not next(host.offers) then host.offers = false end
  -- Never reported: it may have been sent in the last moment of its window.
  if host.till > 0 and host.till <= now then host.last, host.till, host.awaits = max(host.last, host.till), 0, '' end
  return host
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
  for i, name in ipairs(missing) do S.hosts[name] = decode(raws[i], S.now) end
end

function Host.get(S, name)
  local host = S.hosts[name]
  if not host then
    host = decode(call('HGET', S.b .. K.hosts, name), S.now)
    S.hosts[name] = host
  end
  return host
end

flush_hosts = function(S)
  local set, gone = {}, {}
  for name in pairs(S.dirty) do
    local h = S.hosts[name]
    local plain, rest = h.plain, 0
    if not plain then
      rest = max(Host.next(S, h), h.blocked)
      for _, offer in pairs(h.offers or {}) do rest = max(rest, offer[2]) end
      if h.answers > 0 then rest = max(rest, h.refused + ANSWERS_KEPT) end
      plain = rest <= S.now and h.paused == '' and not h.policy and h.delay == 0 and h.floor == 0 and h.throttles == 0
        and h.parked == 0
    end
    if not plain then
      -- Looked at once more when its time has come, so that a record does not outlive its use.
      if h.inflight == 0 and h.parked == 0 and rest > S.now and S.wakes[name] == nil then S.wakes[name] = rest end
      set[#set + 1] = name
      set[#set + 1] = pack({
        h.inflight, h.last, h.blocked, h.throttles, h.delay, h.floor, h.paused, h.why, h.parked, h.policy, h.gap, h.awaits, h.till,
        h.line, h.offers, h.heeds, h.answers, h.refused,
      })
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
  -- What the caller might have taken and did not is for others at once.
  for name, claims in pairs(S.claims or {}) do
    local host, left = S.hosts[name], 0
    for _, slots in pairs(claims) do left = left + slots[1] end
    if left > 0 and host.parked > 0 and Host.capacity(S, name, host) > 0 then S.wakes[name] = S.now end
  end
  S.claims = nil
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
  if S.own then
    local kept, none = {}, {}
    for key, own in pairs(S.own) do
      if not own.changed then
        -- It was only looked at.
      elseif own.n > 0 then
        kept[#kept + 1] = key
        kept[#kept + 1] = own.parked and own.n .. 'p' or own.n
      else
        none[#none + 1] = key
      end
    end
    if #kept > 0 then call_chunked('HSET', S.b .. K.own, kept) end
    if #none > 0 then call_chunked('HDEL', S.b .. K.own, none) end
    S.own = nil
  end
end

function Host.policy(S, host)
  return host.policy or Host.default(S)
end

-- A permit is of no group.
local ANYONE = {delay = 0}

local function heeds(group)
  return group.crawl_delay ~= false
end

-- What robots.txt asks for, 0 where the host has a policy that goes before it.
local function asked(S, host)
  return Host.policy(S, host).crawl_delay ~= false and host.floor or 0
end

-- The delay that is the same for all groups.
function Host.delay(S, host)
  local policy = Host.policy(S, host)
  local delay = policy.delay
  if policy.adaptive and host.delay > 0 then delay = host.delay end
  if policy.adaptive then delay = max(delay, policy.min_delay) end
  return delay
end

-- Whether a request of a group (nil: what is the same for all) has a delay after it; `next` says how long.
function Host.paced(S, host, group)
  if Host.delay(S, host) > 0 then return true end
  return group and (group.delay > 0 or heeds(group) and asked(S, host) > 0)
end

-- When the delay has passed after the last request, as far as is known.
function Host.next(S, host)
  local sent = max(host.last, host.till)
  if sent == 0 then return 0 end
  return sent + max(Host.delay(S, host), host.gap, host.heeds and asked(S, host) or 0)
end

-- Whether a group bounds itself below what the host allows: only then its own requests there are counted.
local function stricter(S, host, group)
  if not group or group.concurrency == 0 then return false end
  local limit = Host.policy(S, host).concurrency
  return limit == 0 or group.concurrency < limit
end

-- What a group has in flight on a host.
local function own_of(S, group_name, name)
  if not S.own then S.own = {} end
  local key = group_name .. '|' .. name
  local own = S.own[key]
  if not own then
    local raw = call('HGET', S.b .. K.own, key) or '0'
    own = {n = tonumber(string.match(raw, '^%d+')), parked = sub(raw, -1) == 'p'}
    S.own[key] = own
  end
  return own
end

-- How many requests a plain host may have in flight, where nothing else is to be asked for this group (nil: a permit); else nil.
function Host.most(S, group)
  if group and (group.delay > 0 or group.concurrency > 0) then return nil end
  local policy = Host.default(S)
  if policy.delay > 0 or policy.adaptive then return nil end
  return policy.concurrency == 0 and huge or policy.concurrency
end

-- How many requests of a group (nil: a permit) may go to the host now, and when to look again if none (nil: when a slot is freed or
-- an operator resumes it). Third: whether only the group's own requests stand in its way.
function Host.capacity(S, name, host, group, group_name)
  local most = host.plain and Host.most(S, group)
  if most then return max(0, most - host.inflight) end
  if host.paused ~= '' then return 0 end
  local wait = max(host.blocked, Host.next(S, host))
  if wait > S.now then return 0, wait end
  local limit = Host.policy(S, host).concurrency
  local free = limit == 0 and huge or limit - host.inflight
  if free <= 0 then return 0 end
  if stricter(S, host, group) then
    free = min(free, group.concurrency - own_of(S, group_name, name).n)
    if free <= 0 then return 0, nil, true end
  end
  if Host.paced(S, host, group) then return 1 end
  return free
end

-- How many of a host's free slots are kept for other lanes than this, and until when.
local function kept_for_others(S, host, lane_id)
  local slots, till = 0, 0
  for id, offer in pairs(host.offers or {}) do
    if id ~= lane_id and offer[2] > S.now then slots, till = slots + offer[1], max(till, offer[2]) end
  end
  return slots, till
end

-- The slots that are meant for a lane, or nil.
local function meant_for(S, name, host, lane_id)
  local claims, offer = S.claims and S.claims[name], host.offers and host.offers[lane_id]
  return claims and claims[lane_id] or offer and offer[2] > S.now and offer or nil
end

-- As `capacity`, for a lane: without what is kept for others.
function Host.room(S, name, host, lane, group)
  local room, wake, own = Host.capacity(S, name, host, group, lane.group)
  if room > 0 and host.offers then
    local kept, till = kept_for_others(S, host, lane.id)
    room = max(0, min(room, Host.capacity(S, name, host) - kept))
    if room == 0 then return 0, till end
  end
  return room, wake, own
end

-- The lane has taken a number of slots.
function Host.took(S, name, host, lane, n)
  local slots = (host.offers or S.claims) and meant_for(S, name, host, lane.id)
  if not slots then return end
  slots[1] = max(0, slots[1] - n)
  if slots[1] == 0 and host.offers and host.offers[lane.id] == slots then host.offers[lane.id] = nil end
end

local function turn_of(S, group_name)
  local group = Lane.group(S, group_name)
  return 1 / (group and group.weight or 1)
end

-- A stage of a group stands in the line of a host, behind those of the same turn. `turns`: how many it was just given there, if any.
local function queue_up(S, name, host, stage, group_name, turns)
  local at = host.line + (turns or 1) * turn_of(S, group_name) + 1e-6 * host.parked
  if call('ZADD', S.b .. K.parked .. name, 'NX', at, stage .. '|' .. group_name) == 1 then host.parked = host.parked + 1 end
  touch(S, name, host)
end

-- A place with work whose host may not be asked now leaves its ring: it waits for the host, or for the group's own requests there,
-- and costs nothing in between. Its priorities in a lane wait in a sorted set, and only the best of them returns to its ring: a
-- host with a thousand priorities costs no more than one with a single one.
function Host.park(S, name, host, lane, priority, wake, own, got)
  call('ZADD', S.b .. K.waiting .. lane.id .. ':' .. name, -priority, priority)
  if own then
    local mine = own_of(S, lane.group, name)
    mine.parked, mine.changed = true, true
  else
    queue_up(S, name, host, lane.stage, lane.group, got)
  end
  if wake then S.wakes[name] = wake end
end

-- The stage of a group goes away: it no longer waits for any host.
function Host.leave(S, name, stage, group_name)
  if call('ZREM', S.b .. K.parked .. name, stage .. '|' .. group_name) == 0 then return end
  local host = Host.get(S, name)
  host.parked = max(0, host.parked - 1)
  touch(S, name, host)
end

local enter_ring -- queue.lua

-- Work of this lane and host with a better priority still waits to be woken: it enters its ring, and this priority waits instead.
function Host.raise(S, name, host, lane, priority)
  if host.parked == 0 and not stricter(S, host, Lane.group(S, lane.group)) then return false end
  local key = S.b .. K.waiting .. lane.id .. ':' .. name
  local best = call('ZRANGE', key, 0, 0)[1]
  if not best or tonumber(best) <= tonumber(priority) then return false end
  call('ZREM', key, best)
  enter_ring(S, lane, best, name)
  Host.park(S, name, host, lane, priority)
  return true
end

-- `sent`: the request goes out at once and is not reported.
function Host.occupy(S, name, host, group, group_name, by, sent)
  host.inflight = host.inflight + by
  if stricter(S, host, group) then
    local own = own_of(S, group_name, name)
    own.n, own.changed = own.n + by, true
    S.counted = S.counted or {}
    S.counted[group_name .. '|' .. name] = true
  end
  group = group or ANYONE
  if Host.paced(S, host, group) then
    host.gap, host.heeds = group.delay, heeds(group)
    if sent then
      host.last = S.now
    else
      host.awaits, host.till = S.nonce .. '|' .. group_name, S.now + S.send_ms
      S.paced = S.paced or {}
      S.paced[group_name .. '|' .. name] = true
    end
    host.plain = false
  end
  S.dirty[name] = true
end

-- Of lanes that wait for the same slot: lower tiers first, in a tier the lowest pass.
local function first_of(S, lanes)
  local best, least = nil, huge
  for _, lane in ipairs(lanes) do
    if not best or lane.tier < best.tier then best = lane end
  end
  if #lanes < 2 then return best end
  local tier = best.tier
  for _, lane in ipairs(lanes) do
    if lane.tier == tier then
      local v = call('HMGET', S.b .. K.shares .. lane.group, lane.id, 'v|' .. lane.stage .. '|' .. tier)
      local pass = max(tonumber(v[1]) or 0, tonumber(v[2]) or 0)
      if pass < least then best, least = lane, pass end
    end
  end
  return best
end

-- Whether a lane that was given a number of slots of a host, and has not taken them yet, may take another.
local function may_take(S, name, host, lane, slots)
  local group = Lane.group(S, lane.group)
  if Lane.closed(S, lane) ~= '' then return false end
  if lane.max_leased > 0 and count_now(S, lane.f.l) + slots >= lane.max_leased then return false end
  return not stricter(S, host, group) or own_of(S, lane.group, name).n + slots < group.concurrency
end

-- A slot goes to one lane of this stage of a group: it returns to its ring with its best priority, or may take one more there. Lanes that
-- nobody asks for, or that may not be served, are let through besides: they must not keep a slot from others. Where slots are not
-- `scarce` all are let through. Answers whether the slot is given away, and whether more waits.
local function unpark(S, name, host, stage, group_name, scarce)
  local lanes, waiting, more = {}, {}, false
  local function enter(lane)
    local priority = call('ZPOPMIN', S.b .. K.waiting .. lane.id .. ':' .. name)[1]
    enter_ring(S, lane, priority, name)
    more = more or waiting[lane.id] > 1
    return priority
  end
  local function more_than(lane, slots)
    local spot = lane.id .. ':' .. slots[3] .. ':' .. name
    return call('LLEN', S.b .. K.queue .. spot) + (S.m.front > 0 and call('LLEN', S.b .. K.front .. spot) or 0) > slots[1]
  end
  for _, id in ipairs(Lane.ids(S, group_name)) do
    local lane = Lane.by_id(S, id)
    waiting[id] = lane and call('ZCARD', S.b .. K.waiting .. id .. ':' .. name) or 0
    local waits = waiting[id] > 0
    local slots = lane and meant_for(S, name, host, id)
    if waits and lane.stage ~= stage then
      -- It stands in the line for itself, also where it came to its stage while it waited.
      queue_up(S, name, host, lane.stage, group_name)
    elseif lane and lane.stage == stage and (waits or slots and more_than(lane, slots)) then
      if scarce and may_take(S, name, host, lane, slots and slots[1] or 0) and Pool.asked(S, lane) then
        lanes[#lanes + 1] = lane
      elseif waits then
        enter(lane)
      end
    end
  end
  if #lanes == 0 then return false, more end
  local lane = first_of(S, lanes)
  local slots = meant_for(S, name, host, lane.id)
  if slots and more_than(lane, slots) then
    slots[1] = slots[1] + 1
    more = more or waiting[lane.id] > 0
  elseif slots then
    slots[1], slots[2], slots[3] = slots[1] + 1, S.now + OFFER, enter(lane)
  else
    slots = {1, S.now + OFFER, enter(lane)}
    if S.selection and serves(S.selection, lane) then
      S.claims = S.claims or {}
      S.claims[name] = S.claims[name] or {}
      S.claims[name][lane.id] = slots
    else
      host.offers = host.offers or {}
      host.offers[lane.id] = slots
    end
  end
  return true, more or #lanes > 1 or (host.parked > 1 or host.offers) and more_than(lane, slots)
end

-- Lets those who wait for a host try again, as far as it has room, in the order of its line; else sets its next look.
function Host.refresh(S, name, host)
  if host.parked == 0 then return end
  local free, wake = Host.capacity(S, name, host)
  if free > 0 and (host.offers or S.claims) then
    local kept, till = kept_for_others(S, host)
    if till > 0 then wake = till end
    for _, claim in pairs(S.claims and S.claims[name] or {}) do kept = kept + claim[1] end
    free = free - kept
  end
  if free <= 0 then
    if wake then S.wakes[name] = wake end
    return
  end
  local key, woken, tried, again = S.b .. K.parked .. name, 0, 0, {}
  while woken < free and tried < WAKE_MAX do
    local first = call('ZPOPMIN', key)
    if not first[1] then break end
    tried = tried + 1
    local at, stage, group_name = tonumber(first[2]), string.match(first[1], '^([^|]*)|(.*)$')
    local given, more = unpark(S, name, host, stage, group_name, free < huge)
    if given then
      woken, host.line = woken + 1, max(host.line, at)
      if more then call('ZADD', key, at + turn_of(S, group_name), first[1]) end
    elseif more then
      again[#again + 1] = at
      again[#again + 1] = first[1]
    end
  end
  if #again > 0 then call('ZADD', key, unpack(again)) end
  if tried > 0 then S.woken = (S.woken or 0) + 1 end
  host.parked = call('ZCARD', key)
  touch(S, name, host)
  if host.parked == 0 then
    S.wakes[name] = false
  else
    S.wakes[name] = woken >= free and S.now + OFFER or S.now
  end
end

-- Whether the host waits for the lease of this nonce and lane. In one call it gets one request of one group at most that has a delay.
local function awaits(S, host, nonce, lane_id)
  if host.awaits == '' or sub(host.awaits, 1, #nonce) ~= nonce then return false end
  local lane = lane_id ~= '' and Lane.by_id(S, lane_id)
  return lane and host.awaits == nonce .. '|' .. lane.group
end

-- The request of lease `nonce`, of a lane, was sent at this time: the delay of its host counts from then, also if the host had not been
-- waiting for it any more.
function Host.sent(S, name, nonce, at, lane_id)
  local host = Host.get(S, name)
  if awaits(S, host, nonce, lane_id) then
    host.awaits, host.till = '', 0
  else
    local lane = lane_id ~= '' and Lane.by_id(S, lane_id)
    local group = lane and Lane.group(S, lane.group) or ANYONE
    if host.plain and not Host.paced(S, host, group) then return end
    host.gap, host.heeds = max(host.gap, group.delay), host.heeds or heeds(group)
  end
  host.last = max(host.last, at)
  touch(S, name, host)
  Host.refresh(S, name, host)
end

-- A slot is free again. `unsent`: nothing went out for it. `counted`: the group whose own request it was, if it counts them.
function Host.free(S, name, nonce, lane_id, unsent, counted)
  local host = Host.get(S, name)
  host.inflight = max(0, host.inflight - 1)
  S.dirty[name] = true
  -- A plain host awaits no request, and no lane waits for it.
  if host.plain and not counted then return end
  if awaits(S, host, nonce, lane_id) then
    if not unsent then host.last = S.now end
    host.awaits, host.till = '', 0
  end
  if counted then
    local own = own_of(S, counted, name)
    own.n, own.changed = max(0, own.n - 1), true
    if own.parked then
      own.parked = false
      for _, id in ipairs(Lane.ids(S, counted)) do
        local lane = Lane.by_id(S, id)
        -- It goes first: while it waited the host had a slot for whoever asked.
        if lane then queue_up(S, name, host, lane.stage, counted, 0) end
      end
    end
  end
  Host.refresh(S, name, host)
end

function Host.wake_due(S)
  local due = call('ZRANGEBYSCORE', S.b .. K.wake, '-inf', S.now, 'LIMIT', 0, RECLAIM_MAX)
  if #due == 0 then return end
  Host.load(S, due)
  call('ZREM', S.b .. K.wake, unpack(due))
  for _, name in ipairs(due) do
    S.dirty[name] = true
    S.wakes[name] = nil
    Host.refresh(S, name, S.hosts[name])
  end
end

function Host.block(S, name, untl, why)
  local host = Host.get(S, name)
  host.blocked, host.why = untl, why
  touch(S, name, host)
  Host.refresh(S, name, host)
end

local function note_answer(S, name, host, is_refusal)
  if not is_refusal and host.answers == 0 then return end
  host.answers = (2 * host.answers + (is_refusal and 1 or 0)) % 2 ^ ANSWERS
  if is_refusal then host.refused = S.now end
  touch(S, name, host)
end

-- How many of the last answers were refusals.
local function refusals_of(host)
  local refusals, rest = 0, host.answers
  while rest > 0 do
    refusals, rest = refusals + rest % 2, floor(rest / 2)
  end
  return refusals
end

-- What a response says about its host. feedback = {verdict, latency ms or -1, retry-after ms or -1}. One page that is not available
-- says nothing about the others: only a host of which many of the last answers say so is blocked. If it still is not when it is tried
-- again, that is no further answer: at the end of a round, few pages that are tried again would be most of the last answers.
function Host.learn(S, name, feedback)
  local host, verdict = Host.get(S, name), feedback[FEEDBACK.verdict]
  local policy = Host.policy(S, host)
  if host.plain and verdict == 'ok' and not policy.adaptive then return end
  local unavailable, again = verdict == 'unavailable', verdict == 'still_unavailable'
  if not again then note_answer(S, name, host, verdict == 'throttled' or unavailable) end
  if verdict == 'throttled' or (unavailable or again) and refusals_of(host) >= REFUSALS then
    -- Answers to requests that were under way together are one refusal, not several in a row.
    if host.blocked <= S.now then host.throttles = host.throttles + 1 end
    local wait = feedback[FEEDBACK.retry_after]
    if wait < 0 or verdict ~= 'throttled' then wait = policy.block_base * 2 ^ min(max(host.throttles - 1, 0), 20) end
    local untl = S.now + min(wait, policy.block_max)
    if untl > host.blocked then Host.block(S, name, untl, 'throttled') end
    touch(S, name, host)
  elseif verdict == 'ok' and host.throttles > 0 and host.blocked <= S.now then
    host.throttles = 0
    touch(S, name, host)
  end
  if policy.adaptive and feedback[FEEDBACK.latency] >= 0 then
    -- As Scrapy's AutoThrottle: up at once, down by halves.
    local old = max(host.delay > 0 and host.delay or policy.delay, policy.min_delay)
    local aim = feedback[FEEDBACK.latency] / policy.target
    local new = max(aim, (old + aim) / 2)
    new = max(1, policy.min_delay, min(policy.max_delay, floor(new)))
    if verdict == 'ok' or new > old then host.delay = new else host.delay = old end
    touch(S, name, host)
  end
end
