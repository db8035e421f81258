-- Suspects: requests that may have killed their workers. They are tried alone.

do

local SUSPECTS_LOOK = 16   -- suspects looked at per call
local SUSPECTS_WAIT = 1000 -- ms until a worker is asked to look at further ones
local TASTE_WAIT = 10000 -- ms that a worker waits idly for the host of a request to be tried alone

-- A suspect goes alone to a worker that holds nothing else. One worker at a time is emptied for that: the taster.
-- Returns true when this worker must take nothing else now.
function Lease.taste(S, call_info, selection, taken)
  if S.m.alone > 0 and call('HEXISTS', S.b .. K.alone, call_info.incarnation) == 1 then return true end
  if S.m.x == 0 then return false end
  local key = S.b .. K.suspects
  local looked = 0
  for _, raw in ipairs(call('LRANGE', key, 0, SUSPECTS_LOOK - 1)) do
    local suspect = unpack_msg(raw)
    local v = suspect[SUSPECT.lease]
    local lane = Lane.by_id(S, v[LEASE.lane_id])
    if not lane then
      call('LREM', key, 1, raw)
      S.m.x = max(0, S.m.x - 1)
    elseif serves(selection, lane) and Lane.closed(S, lane) == '' and pages_left(S, lane.group) > 0 then
      local other = S.m.taster ~= '' and S.m.taster ~= call_info.incarnation and S.m.tasterat > S.now
      if other then
        look_again(S, S.m.tasterat)
        return false
      end
      local host = Host.get(S, v[LEASE.host])
      local group = Lane.group(S, lane.group)
      local free, wake = Host.capacity(S, v[LEASE.host], host, group, lane.group)
      if wake then look_again(S, wake) end
      -- For a slot or a short delay the worker is kept empty; for a host that is blocked or paused it is not.
      if free > 0 or (host.paused == '' and (wake or 0) - S.now <= TASTE_WAIT) then
        S.m.taster, S.m.tasterat = call_info.incarnation, S.now + call_info.lease_ms
        if free == 0 or call_info.busy or count_now(S, 'w|' .. call_info.incarnation) > 0 then return true end
        Host.occupy(S, v[LEASE.host], host, group, lane.group, 1)
        call('LREM', key, 1, raw)
        S.m.x = S.m.x - 1
        S.m.alone = S.m.alone + 1
        call('HSET', S.b .. K.alone, call_info.incarnation, suspect[SUSPECT.id])
        put_taken(taken, lane, v[LEASE.priority], v[LEASE.host], again(suspect[SUSPECT.id], v[LEASE.attempts], v[LEASE.strikes], v[LEASE.record], v[LEASE.losses]))
        set_pages_left(S, lane.group, pages_left(S, lane.group) - 1)
        return true
      end
    end
    if lane then looked = looked + 1 end
  end
  if S.m.x > looked then
    -- None of these could be served by this worker: the next ones come up at the next look.
    for _ = 1, looked do call('LMOVE', key, key, 'LEFT', 'RIGHT') end
    look_again(S, S.now + SUSPECTS_WAIT)
  end
  return false
end

-- Whether a lane of the selection has work that may be ready, or something to be tried alone.
function Lease.more(S, call_info, selection)
  if S.m.alone > 0 and call('HEXISTS', S.b .. K.alone, call_info.incarnation) == 1 then return false end
  if S.m.x > 0 and (S.m.taster == '' or S.m.taster == call_info.incarnation or S.m.tasterat <= S.now) then
    for _, raw in ipairs(call('LRANGE', S.b .. K.suspects, 0, SUSPECTS_LOOK - 1)) do
      local v = unpack_msg(raw)[SUSPECT.lease]
      local lane = Lane.by_id(S, v[LEASE.lane_id])
      if lane and serves(selection, lane) and Lane.closed(S, lane) == '' then
        local free, wake = Host.capacity(S, v[LEASE.host], Host.get(S, v[LEASE.host]), Lane.group(S, lane.group), lane.group)
        if free > 0 then return true end
        if wake then look_again(S, wake) end
      end
    end
  elseif S.m.x > 0 then
    look_again(S, S.m.tasterat)
  end
  S.spent, S.taking = {}, {}
  for _, entry in ipairs(ready_groups(S, selection, 1)) do
    local place = entry.stage .. '|' .. entry[1]
    for _, tier in ipairs(call('ZRANGE', S.b .. K.tiers .. place, 0, -1)) do
      for _, lane in ipairs(tier_lanes(S, place, tier, 1, entry.only)) do
        if lane.room > 0 then return true end
      end
    end
  end
  return false
end

end
