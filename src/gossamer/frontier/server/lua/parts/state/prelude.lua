-- State of one call: opened by `begin`, written back by `finish`.
--
-- Every key of a partition starts with KEYS[1], which carries the partition's hash tag; the table K of
-- key suffixes is put in front of this file by keys.py, the only place where key names are made.
-- Times are whole milliseconds of server time that never go back; meta's `ahead` is by how much they are ahead of the server's clock.

local call
local floor, ceil, max, min, huge
local pack, unpack_msg
local sub, byte, format
local RUN -- the identity of this server process

-- While a library loads the server offers nothing but registration; the rest is taken up when a function first runs.
local function take_up()
  call = redis.call
  floor, ceil, max, min, huge = math.floor, math.ceil, math.max, math.min, math.huge
  pack, unpack_msg = cmsgpack.pack, cmsgpack.unpack
  sub, byte, format = string.sub, string.byte, string.format
  RUN = sub(string.match(call('INFO', 'server'), 'run_id:(%w+)'), 1, 16)
end

local function register(name, flags, callback)
  local function run(keys, args)
    if not call then take_up() end
    return callback(keys, args)
  end
  redis.register_function{function_name = LIBRARY .. '_' .. name, callback = run, flags = flags}
end

local UNPACK_MAX = 4000   -- Lua's unpack() fails near 8,000 values
local RECLAIM_MAX = 64    -- leases, delayed requests and hosts moved per call
local LOOK_MAX = 256      -- hosts looked at per call before the worker is asked to call again
local MEMORY_CHECK = 200  -- ms between looks at the server's memory
local MEMORY_FULL = 0.95  -- share of maxmemory at which producers stop and leasing goes on a few at a time
local DRAIN_LEASES = 8    -- requests in workers' hands, per partition, while memory is short
local DRAIN_SLACK = 1048576 -- bytes by which pages may raise memory beyond the limit before leasing slows down
local DRAIN_LOOK = 1000   -- ms after which a worker that got less than it wanted looks again
local DRAIN_WAIT = 60000  -- ms between two leases while pages raise memory beyond the limit
local ANSWER_TTL = 3600000 -- of a caller that calls again, and then replaces its answer
local ONCE_TTL = 300000     -- of a call with a name of its own
local KEYED_TTL = 604800000
local DELIVERED_TTL = 2592000000 -- of a delivery, until its worker says that it is no longer owed

-- Decoded policies, kept between calls. A stamp that changes with every policy change guards them, so
-- they can never be older than the store; losing them costs a few reads.
local configs, configs_count = {}, 0

local META = {'t', 'off', 'id', 'chg', 'cfg', 'paused', 'snap', 'mem', 'memat', 'x', 'taster', 'tasterat', 'alone', 'front',
  'run', 'epoch', 'ob', 'ahead', 'lu', 'due', 'rep', 'tx'}

local function fail(code, text)
  return redis.error_reply('GSM' .. code .. ' ' .. text)
end

local function call_chunked(command, key, values)
  local result = 0
  for first = 1, #values, UNPACK_MAX do
    result = call(command, key, unpack(values, first, min(first + UNPACK_MAX - 1, #values)))
  end
  return result
end

-- HMGET of any number of fields.
local function read_many(key, fields)
  if #fields <= UNPACK_MAX then return call('HMGET', key, unpack(fields)) end
  local out = {}
  for first = 1, #fields, UNPACK_MAX do
    for _, value in ipairs(call('HMGET', key, unpack(fields, first, min(first + UNPACK_MAX - 1, #fields)))) do
      out[#out + 1] = value
    end
  end
  return out
end

-- Name, value, ... as a table.
local function flat_table(flat)
  local found = {}
  for i = 1, #flat, 2 do found[flat[i]] = flat[i + 1] end
  return found
end

-- The server's memory and its limit (0: none), in bytes.
local function memory_now()
  local info = call('INFO', 'memory')
  return tonumber(string.match(info, 'used_memory:(%d+)')), tonumber(string.match(info, 'maxmemory:(%d+)'))
end

local function memory_full(S)
  local m = S.m
  if S.now - m.memat >= MEMORY_CHECK or S.now < m.memat then
    local used, limit = memory_now()
    m.mem = (limit > 0 and used >= limit * MEMORY_FULL) and 1 or 0
    m.memat = S.now
  end
  return m.mem == 1
end

-- The error of a function that is allowed beyond the limit because part of what it does frees memory, for the other part.
local function no_memory()
  local used, limit = memory_now()
  if limit > 0 and used >= limit then return redis.error_reply('OOM not allowed beyond maxmemory') end
end

-- How many of `want` may be leased while memory is short. Only work that ends frees the memory of a full queue, so it never
-- stops: below the limit a few requests are out at a time, beyond it one; and where such pages have brought more than they
-- freed, one a minute. Looked up each time: what was found a moment ago may be a few large pages old.
local function want_while_full(S, want)
  local leased = call('ZCARD', S.b .. K.deadlines)
  local used, limit = memory_now()
  if used < limit then return max(0, min(want, DRAIN_LEASES - leased)) end
  if leased > 0 then return 0 end
  local v = call('HMGET', S.b .. K.meta, 'drainlow', 'drainat')
  -- The least memory at which this was asked; a limit that was raised meanwhile counts as that.
  local low = max(limit, min(used, tonumber(v[1]) or used))
  if used > low + DRAIN_SLACK and S.now - (tonumber(v[2]) or 0) < DRAIN_WAIT then return 0 end
  call('HSET', S.b .. K.meta, 'drainlow', low, 'drainat', S.now)
  return 1
end

local function config_of(base, stamp)
  local config = configs[base]
  if not config or config.stamp ~= stamp then
    if not config then
      configs_count = configs_count + 1
      if configs_count > 512 then configs, configs_count = {}, 1 end
    end
    config = {stamp = stamp, lanes = {}, names = {}, groups = {}}
    configs[base] = config
  end
  return config
end

-- The time after `t`, and how far it is `ahead` of a clock that says `wall`. A clock that goes back stops nothing: time goes on from
-- where it was, a little slower until the clock has caught up.
local CATCH_UP = 0.1
local function flow(t, ahead, wall)
  local elapsed = wall - (t - ahead)
  if elapsed < 0 then return t, t - wall end
  if ahead > 0 then ahead = max(0, ahead - elapsed * CATCH_UP) end
  return max(t, floor(wall + ahead)), ahead
end

local function wall_clock(off)
  local time = call('TIME')
  return floor(time[1] * 1000 + time[2] / 1000) + (tonumber(off) or 0)
end

-- The time of what keeps its own, in a hash: read and written back.
local function stored_now(key)
  local v = call('HMGET', key, 't', 'ahead', 'off')
  local now, ahead = flow(tonumber(v[1]) or 0, tonumber(v[2]) or 0, wall_clock(v[3]))
  call('HSET', key, 't', now, 'ahead', ahead)
  return now
end

-- Nil and an error reply when the crawl does not exist.
local function begin(base)
  local v = call('HMGET', base .. K.meta, unpack(META))
  if not v[5] then
    return nil, fail('NOCRAWL', 'the crawl does not exist on this server')
  end
  local m = {
    t = tonumber(v[1]) or 0, id = tonumber(v[3]) or 0, chg = tonumber(v[4]) or 0, cfg = v[5],
    paused = v[6] or '', snap = tonumber(v[7]) or 0, mem = tonumber(v[8]) or 0, memat = tonumber(v[9]) or 0,
    x = tonumber(v[10]) or 0, taster = v[11] or '', tasterat = tonumber(v[12]) or 0, alone = tonumber(v[13]) or 0,
    front = tonumber(v[14]) or 0, run = v[15], epoch = v[16], ob = tonumber(v[17]) or 0,
    leader_until = tonumber(v[19]) or 0, due = tonumber(v[20]) or 0, rep = tonumber(v[21]) or 0,
    tx = tonumber(v[22]) or 0,
  }
  local ahead, now = tonumber(v[18]), nil
  local was = {
    mem = m.mem, memat = m.memat, x = m.x, taster = m.taster, tasterat = m.tasterat, alone = m.alone, front = m.front, ob = m.ob,
    ahead = ahead, due = m.due, rep = m.rep, tx = m.tx,
  }
  now, m.ahead = flow(m.t, ahead or 0, wall_clock(v[2]))
  -- Another process than the one that wrote last: it may have lost what that one acknowledged. `finish` stores it.
  if m.run ~= RUN then m.epoch = RUN .. '.' .. format('%d', now) end
  local config = config_of(base, v[5])
  if m.run ~= RUN or config.chg ~= m.chg then config.sums, config.chg = nil, m.chg end
  return {
    b = base, now = now, m = m, was = was, counts = {}, hosts = {}, dirty = {}, wakes = {}, config = config, changed = false,
  }
end

-- Adds to a count, written by `finish`. Fields: `<lane id>|<what>`, `g|<group>|<what>`, `w|<incarnation>`.
local function count(S, field, by)
  S.counts[field] = (S.counts[field] or 0) + by
end

local function count_now(S, field)
  return (tonumber(call('HGET', S.b .. K.counts, field)) or 0) + (S.counts[field] or 0)
end

local flush_hosts -- host.lua
local open_forsaken -- round.lua

-- How much is open in the groups of a selection (exchange.lua), as it is stored. Summed up once and kept up to date by `flush_counts`, so
-- that its cost does not grow with the groups; `begin` drops the sums where another process may have written.
local function stored_open(S, selection)
  local sums = S.config.sums
  if not sums then
    sums = {}
    S.config.sums = sums
  end
  local open = sums[selection]
  if not open then
    local fields = {}
    for i, group in ipairs(selection.names) do fields[i] = 'g|' .. group .. '|open' end
    open = 0
    for _, value in ipairs(read_many(S.b .. K.counts, fields)) do open = open + (tonumber(value) or 0) end
    sums[selection] = open
  end
  return open
end

-- Counts of nothing are not kept, but for the sum of what is open. `moved` of a group is the number of the call that changed last how much
-- is open in it, by which two looks at a group that has nothing open see whether it had meanwhile (group_open.lua).
local function flush_counts(S)
  local fields, opened, set = {}, 0, {}
  for field, by in pairs(S.counts) do
    if by ~= 0 then
      if sub(field, -5) == '|open' then
        local group = sub(field, 3, -6)
        opened = opened + by
        if group ~= S.dropped then
          set[#set + 1] = 'g|' .. group .. '|moved'
          set[#set + 1] = S.m.chg + 1
        end
        for selection, open in pairs(S.config.sums or {}) do
          if selection.groups[group] then S.config.sums[selection] = open + by end
        end
      end
      fields[#fields + 1] = field
    end
  end
  if #fields == 0 then return end
  S.config.chg = nil -- until all of this call is written
  S.changed = true
  if opened ~= 0 then
    fields[#fields + 1] = 'open'
    S.counts.open = opened
  end
  local gone = {}
  for i, was in ipairs(read_many(S.b .. K.counts, fields)) do
    local field = fields[i]
    local now = (tonumber(was) or 0) + S.counts[field]
    if now == 0 and field ~= 'open' then
      gone[#gone + 1] = field
    else
      set[#set + 1] = field
      set[#set + 1] = now
    end
  end
  if #set > 0 then call_chunked('HSET', S.b .. K.counts, set) end
  if #gone > 0 then call_chunked('HDEL', S.b .. K.counts, gone) end
end

-- What most calls leave as it was: written where it has changed.
local SELDOM = {'rep', 'mem', 'memat', 'x', 'taster', 'tasterat', 'alone', 'front', 'ob', 'ahead', 'due', 'tx'}

local function finish(S)
  flush_hosts(S)
  flush_counts(S)
  local m, was, set = S.m, S.was, {}
  if S.changed then m.chg = m.chg + 1 end
  S.config.chg = m.chg
  for _, name in ipairs(SELDOM) do
    if m[name] ~= was[name] then
      set[#set + 1] = name
      set[#set + 1] = m[name]
    end
  end
  call('HSET', S.b .. K.meta, 't', S.now, 'id', m.id, 'chg', m.chg, unpack(set))
  if m.run ~= RUN then call('HSET', S.b .. K.meta, 'run', RUN, 'epoch', m.epoch) end
end

-- A verb of a crawl: body(S, h, args), with the state of the partition that the key names and with the header.
local function verb(name, flags, body)
  register(name, flags, function(keys, args)
    local S, problem = begin(keys[1])
    if not S then return problem end
    if S.m.rep > 0 and S.m.rep <= S.now and flags[1] ~= 'no-writes' then open_forsaken(S) end
    return body(S, unpack_msg(args[1]), args)
  end)
end

-- Whether the state that a caller learned from, {epoch, change counter}, is in the past of this one.
local function still_holds(S, learned)
  return learned[1] == S.m.epoch and learned[2] <= S.m.chg
end

-- A new policy stamp: `salt` is random, so that a stamp never returns with other contents behind it.
local function bump_config(S, salt)
  local number = tonumber(string.match(S.m.cfg, '^(%d+)')) or 0
  S.m.cfg = format('%d-%s', number + 1, salt)
  call('HSET', S.b .. K.meta, 'cfg', S.m.cfg)
  S.config = config_of(S.b, S.m.cfg)
end

-- While a snapshot runs, all that is newly queued is also written here, so that the snapshot misses nothing
-- that moved behind its back.
local function journal(S, entry)
  if S.m.snap > S.now then
    call('RPUSH', S.b .. K.journal, pack(entry))
  elseif S.m.snap > 0 then
    S.m.snap = 0
    call('HDEL', S.b .. K.meta, 'snap')
    call('UNLINK', S.b .. K.journal)
  end
end
