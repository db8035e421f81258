-- rounds: the last rounds of a group, newest first; read only.
--
-- KEYS    1: the partition's base key (the group's home partition)
-- ARGV    1: msgpack {group, limit}
-- Returns msgpack {present round, rows[{round, began, ended, closed, trigger, who, pages, items, failed, dead, late, note}]}; what
--            was not noted is left out
-- Cost    O(limit)

verb('rounds', {'no-writes'}, function(S, h)
  if not Lane.group(S, h.group) then return fail('NOGROUP', h.group) end
  local rows = {}
  for i, raw in ipairs(call('ZRANGE', S.b .. K.round_log .. h.group, 0, h.limit - 1, 'REV')) do rows[i] = unpack_msg(raw) end
  return pack({Round.present(S, h.group), rows})
end)
