-- push: appends what settled pages and producers bring to a list, each page's data once. For a list that may lie in another
-- slot than the page: its data are owed from the call that settles it, and arrive with this one.
--
-- KEYS    1: the list; 2: the book beside it, in the same slot (sorted set: page by second * 2^20 + how many of its data are in)
-- ARGV    1: msgpack {pages [[page, place of its first datum here, number of data here]...] (none: only look whether the list can
--            be pushed to), tell (return a problem as text)}; 2 and on: the data in this order
-- Returns how many were appended, or the problem as text
-- Cost    O(data + pages log book); a repeat appends nothing for as long as the book knows the page

local DATA_MAX = 1048576

register('push', {'allow-oom'}, function(keys, args)
  local list, book = keys[1], keys[2]
  local h, problem = unpack_msg(args[1]), Lists.problem({list})
  if problem then return h.tell and problem.err or problem end
  if #h.pages == 0 then return 0 end
  local now = tonumber(call('TIME')[1])
  local old = call('ZRANGEBYSCORE', book, '-inf', (now - KEYED_TTL / 1000) * DATA_MAX, 'LIMIT', 0, 2 * #h.pages + 200)
  if #old > 0 then call_chunked('ZREM', book, old) end
  local at, fresh = 2, {}
  for _, p in ipairs(h.pages) do
    local page, first, n = p[1], p[2], p[3]
    local known = tonumber(call('ZSCORE', book, page) or 0) % DATA_MAX
    for i = max(0, known - first), n - 1 do fresh[#fresh + 1] = args[at + i] end
    if first + n > known then call('ZADD', book, now * DATA_MAX + first + n, page) end
    at = at + n
  end
  if #fresh > 0 then
    call_chunked('RPUSH', list, fresh)
    call('PEXPIRE', book, KEYED_TTL)
  end
  return #fresh
end)
