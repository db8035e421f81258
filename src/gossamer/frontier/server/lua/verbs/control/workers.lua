-- workers: the registry of workers: list a page of them, ask one to drain, remove one that ended or those silent for long; and whose turn
-- it is to look for workers that are gone.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {action (list|newest|silent|named|drain|undrain|leave|forget|turn), incarnation, before ms (of silence, for forget; at
--            least, for silent; since the last turn, for turn), from (ms; list: those whose last call is not earlier; silent: the longest silence), skip (how many of the first), most (rows, or workers looked at), names[] (incarnations, for named) or nil, settled (true: with that count in
--            the rows) or nil}
-- Returns msgpack {now, [[incarnation, info, seen ms, held, draining, settled or not there]...], workers known or removed, or for turn 1: it is the
--            caller's}; rows only for list, newest, silent and named
-- Cost    O(most + log workers)

local WORKERS_MOST = 500

local function rows_of(S, seen, settled)
  local names, fields, out = {}, {}, {}
  for i = 1, #seen, 2 do
    names[#names + 1] = seen[i]
    fields[#fields + 1] = 'w|' .. seen[i]
  end
  if #names == 0 then return out end
  local infos, held = call('HMGET', S.b .. K.workers, unpack(names)), call('HMGET', S.b .. K.counts, unpack(fields))
  local draining = call('SMISMEMBER', S.b .. K.draining, unpack(names))
  local pages = settled and call('HMGET', S.b .. K.worker_settled, unpack(names))
  for i, name in ipairs(names) do
    out[i] = {name, infos[i] or '', tonumber(seen[2 * i]), tonumber(held[i]) or 0, draining[i], pages and (tonumber(pages[i]) or 0)}
  end
  return out
end

verb('workers', {'allow-oom'}, function(S, h)
  local rows, number = {}, 0
  local seen, most = S.b .. K.worker_seen, min(h.most, WORKERS_MOST)
  if h.action == 'drain' then
    call('SADD', S.b .. K.draining, h.incarnation)
  elseif h.action == 'undrain' then
    call('SREM', S.b .. K.draining, h.incarnation)
  elseif h.action == 'leave' then
    number = Worker.leave(S, h.incarnation)
  elseif h.action == 'forget' then
    number = Worker.prune(S, h.before, most)
  elseif h.action == 'turn' then
    -- One of all workers looks in such a time, however many there are.
    local last = tonumber(call('HGET', S.b .. K.meta, 'turn')) or 0
    if S.now - last >= h.before then
      call('HSET', S.b .. K.meta, 'turn', S.now)
      number = 1
    end
  else
    if most == 0 then
      rows = {}
    elseif h.action == 'newest' then
      rows = rows_of(S, call('ZREVRANGE', seen, h.skip, h.skip + most - 1, 'WITHSCORES'), h.settled)
    elseif h.action == 'named' then
      local found = {}
      for i = 1, min(most, #h.names) do
        local at = call('ZSCORE', seen, h.names[i])
        if at then found[#found + 1], found[#found + 2] = h.names[i], at end
      end
      rows = rows_of(S, found, h.settled)
    elseif h.action == 'silent' then
      rows = rows_of(S, call('ZREVRANGEBYSCORE', seen, S.now - h.before, S.now - h.from, 'WITHSCORES', 'LIMIT', h.skip, most), h.settled)
    else
      rows = rows_of(S, call('ZRANGEBYSCORE', seen, h.from, '+inf', 'WITHSCORES', 'LIMIT', h.skip, most), h.settled)
    end
    number = call('ZCARD', seen)
  end
  return pack({S.now, rows, number})
end)
