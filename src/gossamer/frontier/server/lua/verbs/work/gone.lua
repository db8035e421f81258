-- gone: the leases of a worker that is known to be dead run out now instead of at their deadlines, a bounded part per call. Does
-- nothing if the worker has called in the time given (0: its supervisor saw it die).
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {incarnation, silent (ms for which it has not called), groups[] (whose start it may run, or what comes after a round;
--            older workers name one, as `group`), cursor ('0' at first)}
-- Returns msgpack {cursor ('0': complete, or the worker is not dead), leases that run out, those of starts and of ends of rounds among them}
-- Cost    O(200 + groups), whatever is leased; harmless when repeated

local GONE_LOOK = 200 -- leases looked at per call

-- The right to run a start, or to do what comes after a round.
local function free(S, book, groups, incarnation)
  local freed = 0
  for _, group in ipairs(groups) do
    local raw = call('HGET', S.b .. book, group)
    local v = raw and unpack_msg(raw)
    if v and v[RIGHT.state] == 'leased' and v[RIGHT.incarnation] == incarnation and v[RIGHT.deadline] > S.now then
      v[RIGHT.deadline] = S.now
      call('HSET', S.b .. book, group, pack(v))
      freed = freed + 1
    end
  end
  return freed
end

verb('gone', {'allow-oom'}, function(S, h)
  local seen = tonumber(call('ZSCORE', S.b .. K.worker_seen, h.i) or 0)
  if seen > S.now - h.silent then return pack({'0', 0}) end
  local freed = 0
  if h.cursor == '0' then
    local groups = h.groups or {h.group}
    freed = free(S, K.starts, groups, h.i) + free(S, K.ends, groups, h.i)
  end
  local page, ids = call('HSCAN', S.b .. K.leases, h.cursor, 'COUNT', GONE_LOOK), {}
  for i = 1, #page[2], 2 do
    if lease_table(page[2][i + 1])[LEASE.incarnation] == h.i then ids[#ids + 1] = page[2][i] end
  end
  for _, id in ipairs(ids) do freed = freed + call('ZADD', S.b .. K.deadlines, 'XX', 'LT', 'CH', S.now, id) end
  finish(S)
  return pack({page[1], freed})
end)
