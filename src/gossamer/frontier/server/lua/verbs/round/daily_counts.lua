-- daily_counts: what a group brought on each day of the last 400, by layer, on this partition; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {group}
-- Returns msgpack {today, rows[{day (days since 1970, of UTC), {layer|what -> number}}]}; what: done, replaced, retried, failed, expired,
--            read, lacking, rows; items without a layer
-- Cost    O(days + lanes and counters of the group)

verb('daily_counts', {'no-writes'}, function(S, h)
  if not Lane.group(S, h.group) then return fail('NOGROUP', h.group) end
  return pack({Daily.rows(S, h.group)})
end)
