-- seen_scan: pages through one memory for a snapshot; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {name (group|policy|round), cursor ('' to begin), limit}
-- Returns {msgpack {cursor ('' at the end), what, details}, bytes}; what: policy {policy, state of a bloom}, fps {fingerprints[],
--            began (ms or round) or 0, generations behind the newest}, forgotten {fingerprints[]}, bits {layer, segment, offset} with
--            the bytes, none
-- Cost    O(limit)

local CHUNK = 65536

-- Fingerprints of an exact memory from bucket `at` on. Buckets are divided into themselves and one at the end, so what moves
-- while a reader goes up is read again, never missed. Returns the next bucket, or nil.
local function read_buckets(key, at, limit, out)
  local set = Exact.open({key = key})
  while at < set.b and #out < limit do
    for _, fp in ipairs(call('SMEMBERS', key .. ':' .. at)) do out[#out + 1] = fp end
    at = at + 1
  end
  return at < set.b and at or nil
end

local Reads = {}

function Reads.exact(_, key, _, cursor, limit)
  local fps = {}
  local at = read_buckets(key, tonumber(cursor) or 0, limit, fps)
  return {at and format('%d', at) or '', 'fps', {fps, 0, 0}}
end

-- Oldest generation first: what a sighting moves, it moves to the newest.
function Reads.rolling(S, key, policy, cursor, limit)
  local v = call('HMGET', key, 'g', 'at', 'o')
  local newest, at, oldest = tonumber(v[1]) or 1, tonumber(v[2]) or S.now, tonumber(v[3]) or 1
  local g, from = string.match(cursor, '^(%d+)%.(%d+)$')
  local span, kept = Seen.span(policy)
  g = max(tonumber(g) or oldest, oldest, newest - kept)
  local fps = {}
  local rest = read_buckets(key .. ':' .. format('%d', g), tonumber(from) or 0, limit, fps)
  local began = span and at - (newest - g) * span or 0
  local next_cursor = ''
  if rest then
    next_cursor = format('%d.%d', g, rest)
  elseif g < newest then
    next_cursor = format('%d.0', g + 1)
  end
  return {next_cursor, 'fps', {fps, began, newest - g}}
end

Reads.hits = Reads.rolling

function Reads.bloom(S, key, policy, cursor)
  local book = Seen.open(key, policy, S.now)
  if cursor == 'f' then return {'1.0.0', 'forgotten', {call('SMEMBERS', key .. ':f')}} end
  local layer, segment, offset = string.match(cursor, '^(%d+)%.(%d+)%.(%d+)$')
  layer, segment, offset = tonumber(layer), tonumber(segment), tonumber(offset)
  if layer > book.layers then return {'', 'none', {}} end
  local bytes = call('GETRANGE', key .. ':' .. layer .. ':' .. segment, offset, offset + CHUNK - 1)
  local next_cursor
  if #bytes == CHUNK then
    next_cursor = format('%d.%d.%d', layer, segment, offset + CHUNK)
  elseif segment + 1 < book.shapes[layer].segments then
    next_cursor = format('%d.%d.0', layer, segment + 1)
  else
    next_cursor = layer < book.layers and format('%d.0.0', layer + 1) or ''
  end
  return {next_cursor, #bytes > 0 and 'bits' or 'none', {layer, segment, offset}}, bytes
end

verb('seen_scan', {'no-writes'}, function(S, h)
  local number = call('HGET', S.b .. K.seen_names, h.name)
  local raw = number and call('HGET', S.b .. K.seen_policy, number)
  if not raw then return {pack({'', 'none', {}}), ''} end
  local policy, key = unpack_msg(raw), S.b .. K.seen .. number
  if h.cursor == '' then
    local bloom = policy.kind == 'bloom'
    return {pack({bloom and 'f' or '0', 'policy', {policy, bloom and call('HGETALL', key) or {}}}), ''}
  end
  local head, bytes = Reads[policy.kind](S, key, policy, h.cursor, h.limit)
  return {pack(head), bytes or ''}
end)
