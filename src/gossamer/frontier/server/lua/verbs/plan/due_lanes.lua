-- due_lanes: the lanes that keep page records, with what planners divide the room by; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {}
-- Returns msgpack [{lane, its weight, the weight of its group, why it is paused or '', due pages, queued and delayed}...]
-- Cost    O(lanes that keep records)

verb('due_lanes', {'no-writes'}, function(S)
  local rows = {}
  for _, id in ipairs(call('HKEYS', S.b .. K.recorded)) do
    local lane = Lane.by_id(S, id)
    if lane and lane.records then
      local group = Lane.group(S, lane.group)
      local queued = count_now(S, id .. '|q') + count_now(S, id .. '|d')
      rows[#rows + 1] = {lane.name, lane.weight, group and group.weight or 1, Lane.closed(S, lane), Pages.due(S, lane), queued}
    end
  end
  return pack(rows)
end)
