-- seen_count: the memories of the partition: how many fingerprints each knows, where it lies and what it takes; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {}
-- Returns msgpack [[group|policy|round, kind, count, key, bytes]...]
-- Cost    O(memories)

verb('seen_count', {'no-writes'}, function(S)
  local out, names = {}, call('HGETALL', S.b .. K.seen_names)
  for i = 1, #names, 2 do
    local policy = unpack_msg(call('HGET', S.b .. K.seen_policy, names[i + 1]))
    local key = S.b .. K.seen .. names[i + 1]
    -- Rolling memories turn when opened; here they only report, so the turning is not saved.
    local clock = Seen.clock(S, string.match(names[i], '^([^|]*)|'), policy)
    local book = {key = key, policy = policy, clock = clock, kind = Kinds[policy.kind]}
    local n
    if book.kind == Kinds.rolling then
      local v = call('HMGET', key, 'g', 'at')
      book.g, book.sets = tonumber(v[1]) or 1, {}
      local span, kept = Seen.span(policy)
      local turns = span and v[2] and floor((clock - tonumber(v[2])) / span) or 0
      book.from = max(1, book.g + turns - kept)
      n = book.kind.count(book)
    else
      book.kind.open(book)
      n = book.kind.count(book)
    end
    out[#out + 1] = {names[i], policy.kind, n, key, book.kind.bytes(book)}
  end
  return pack(out)
end)
