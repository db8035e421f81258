-- gone: what a worker holds that is known to be gone runs out now instead of at its deadline, a bounded part per call. A worker that
-- has called lately is not gone, whatever the caller believes: nothing changes.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {incarnation, silent (ms for which it has not called), group (whose start it may run, or ''), cursor ('0' at first)}
-- Returns msgpack {cursor ('0': through, or not gone), leases that run out}
-- Cost    O(200), whatever is leased; harmless when repeated

local GONE_LOOK = 200 -- leases looked at per call

local function gone(keys, args)
  local S, problem = begin(keys[1])
  if not S then return problem end
  local h = unpack_msg(args[1])
  local seen = tonumber(call('ZSCORE', S.b .. K.worker_seen, h.i) or 0)
  if seen > S.now - h.silent then return pack({'0', 0}) end
  if h.cursor == '0' and h.group ~= '' then
    local raw = call('HGET', S.b .. K.starts, h.group)
    local v = raw and unpack_msg(raw)
    if v and v[2] == 'leased' and v[3] == h.i then
      v[4] = min(v[4], S.now)
      call('HSET', S.b .. K.starts, h.group, pack(v))
    end
  end
  local page, ids = call('HSCAN', S.b .. K.leases, h.cursor, 'COUNT', GONE_LOOK), {}
  for i = 1, #page[2], 2 do
    if lease_table(page[2][i + 1])[6] == h.i then ids[#ids + 1] = page[2][i] end
  end
  for _, id in ipairs(ids) do call('ZADD', S.b .. K.deadlines, 'XX', 'LT', S.now, id) end
  finish(S)
  return pack({page[1], #ids})
end

register('gone', gone, {'allow-oom'})
