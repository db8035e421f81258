-- due_lanes: the lanes that keep page records, with the figures by which planners divide the room; read only.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {}
-- Returns msgpack [{lane, its weight, the weight of its group, why it is paused or '', due pages, queued and delayed}...]
-- Cost    O(lanes that keep records), in few commands; and one more for each lane that may have due pages

-- Their ids, and the names of their counts: two for each. Kept until a policy changes.
local function recorded_lanes(S)
  local known = S.config.recorded
  if not known then
    known = {ids = {}, fields = {}}
    for _, id in ipairs(call('HKEYS', S.b .. K.recorded)) do
      local lane = Lane.by_id(S, id)
      if lane and lane.records then
        known.ids[#known.ids + 1] = id
        known.fields[#known.fields + 1] = lane.f.q
        known.fields[#known.fields + 1] = id .. '|d'
      end
    end
    S.config.recorded = known
  end
  return known.ids, known.fields
end

verb('due_lanes', {'no-writes'}, function(S)
  local ids, fields = recorded_lanes(S)
  if #ids == 0 then return pack({}) end
  local rows, counts, due = {}, read_many(S.b .. K.counts, fields), Due.lanes(S)
  S.held_groups = flat_table(call('HGETALL', S.b .. K.group_held))
  for i, id in ipairs(ids) do
    local lane = Lane.by_id(S, id)
    local group = Lane.group(S, lane.group)
    S.held_groups[lane.group] = S.held_groups[lane.group] or ''
    rows[i] = {
      lane.name, lane.weight, group and group.weight or 1, Lane.closed(S, lane), due[id] and Due.count(S, lane) or 0,
      (tonumber(counts[2 * i - 1]) or 0) + (tonumber(counts[2 * i]) or 0),
    }
  end
  return pack(rows)
end)
