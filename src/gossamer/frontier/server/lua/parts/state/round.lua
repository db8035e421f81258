-- Rounds of a group: the log of the last ones, which its home partition keeps, and on every partition what was counted when the
-- present one began.
--
-- `round_log` is a sorted set per group: a row by its round's number. `round_base` maps group -> round, counts at its begin,
-- counts of the round before (`Lane.round_base`).

local Round = {}

local ROUNDS_KEPT = 1000
-- What was noted first stays.
local ROUND_FIRST = {began = true, ended = true, closed = true, trigger = true, who = true}

function Round.present(S, group)
  return tonumber(call('HGET', S.b .. K.rounds, group)) or 0
end

-- Pages, items, failed, dead over the life of the crawl.
local function standing(S, group)
  local prefix, failed = 'g|' .. group .. '|', 0
  for _, id in ipairs(call('SMEMBERS', S.b .. K.group_lanes .. group)) do failed = failed + count_now(S, id .. '|failed') end
  return {count_now(S, prefix .. 'pages'), count_now(S, prefix .. 'items'), failed, count_now(S, prefix .. 'dead')}
end

-- The counts of the present round on this partition. A lane that was dropped took its own along.
function Round.counts(S, group)
  local base, now = Lane.round_base(S, group)[2], standing(S, group)
  for i = 1, 4 do now[i] = max(0, now[i] - base[i]) end
  return now
end

-- From now on round `number` is counted. Answers the counts of the one before.
function Round.turn(S, group, number)
  local before = Round.counts(S, group)
  call('HSET', S.b .. K.round_base, group, pack({number, standing(S, group), before}))
  return before
end

-- What `Round.turn` has answered.
function Round.before(S, group)
  return Lane.round_base(S, group)[3]
end

-- As if these counts had been reached in round `number` until now.
function Round.rebase(S, group, number, counts)
  local now = standing(S, group)
  for i = 1, 4 do now[i] = now[i] - counts[i] end
  call('HSET', S.b .. K.round_base, group, pack({number, now, Lane.round_base(S, group)[3]}))
end

function Round.counted(counts)
  return {pages = counts[1], items = counts[2], failed = counts[3], dead = counts[4]}
end

-- A lane that is emptied for the next round is open again, paused as it was.
local function open_lane(S, id, salt)
  local lane = Lane.by_id(S, id)
  if lane and lane.replaced then
    lane.closed, lane.forced, lane.paused, lane.replaced = nil, nil, lane.replaced, nil
    Lane.save(S, lane)
    bump_config(S, salt)
    Lane.activate(S, Lane.by_id(S, id))
    Lane.note_shut(S, lane.group, {[lane.stage] = true})
  end
  call('ZREM', S.b .. K.replacing, id)
end

function Round.open_lanes(S, group, salt)
  for _, id in ipairs(Lane.ids(S, group)) do open_lane(S, id, salt) end
end

-- A lane is emptied for the next round, in many calls: the caller may die between two of them, or give up. It stays closed
-- until the next call should have come; a leader makes one in every cycle.
local REPLACE_MS = 10000

function Round.keep_closed(S, lane)
  local ends = S.now + max(REPLACE_MS, 2 * (S.m.leader_until - S.now))
  call('ZADD', S.b .. K.replacing, ends, lane.id)
  if S.m.rep == 0 then S.m.rep = ends end
end

-- Lanes whose next round was not begun are open again, with what is left in them.
open_forsaken = function(S)
  local key = S.b .. K.replacing
  for _, id in ipairs(call('ZRANGEBYSCORE', key, '-inf', S.now)) do open_lane(S, id, format('%s.%d', S.m.epoch, S.now)) end
  S.m.rep = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2]) or 0
  S.changed = true
end

-- The row of a round and its stored form; nil if it has none.
function Round.row(S, group, number)
  local raw = call('ZRANGEBYSCORE', S.b .. K.round_log .. group, number, number)[1]
  if raw then return unpack_msg(raw), raw end
end

function Round.write(S, group, row, instead)
  local key = S.b .. K.round_log .. group
  if instead then call('ZREM', key, instead) end
  call('ZADD', key, row.round, pack(row))
  if call('ZCARD', key) > ROUNDS_KEPT then call('ZPOPMIN', key) end
end

-- Notes something about a round; what is not named stays as it was noted.
function Round.note(S, group, number, fields)
  local row, raw = Round.row(S, group, number)
  row = row or {round = number}
  for name, value in pairs(fields) do
    if not (ROUND_FIRST[name] and row[name] and row[name] ~= '') then row[name] = value end
  end
  Round.write(S, group, row, raw)
end

-- A right that one worker at a time has, until it is done: v is {round, state, incarnation, deadline}. Returns the answer to h.action
-- (take|renew|release|done), and whether the worker had it before.
function Round.right(S, v, h)
  local mine = v[RIGHT.state] == 'leased' and v[RIGHT.incarnation] == h.i
  if v[RIGHT.state] == 'done' then
    -- To whoever asks for it; but only one worker has run it to its end.
    return (h.action == 'take' or v[RIGHT.incarnation] == h.i) and 'done' or 'lost', mine
  end
  if h.action == 'take' then
    if not (mine or v[RIGHT.state] == 'owed' or v[RIGHT.deadline] <= S.now) then return 'busy', mine end
    v[RIGHT.state], v[RIGHT.incarnation], v[RIGHT.deadline] = 'leased', h.i, S.now + h.lease
    return 'granted', mine
  end
  if not mine then return 'lost', mine end
  if h.action == 'renew' then
    v[RIGHT.deadline] = S.now + h.lease
    return 'granted', mine
  end
  if h.action == 'release' then
    v[RIGHT.state], v[RIGHT.incarnation], v[RIGHT.deadline] = 'owed', '', 0
    return 'granted', mine
  end
  v[RIGHT.state] = 'done'
  return 'done', mine
end
