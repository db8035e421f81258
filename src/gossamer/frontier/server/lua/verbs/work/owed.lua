-- owed: what pages owe beyond the call that settles them: stage a parcel ahead of it, read what is owed, note that it has arrived.
--
-- KEYS    1: the partition's base key (of the pages)
-- ARGV    1: msgpack {action (stage|read|done|list), id, n (number of a parcel), leases [[id, nonce]...] and lease ms (stage),
--            group (list; '' any)}; for stage then the parcel
-- Returns {msgpack: stage 1|0 (kept); read {lost pages[], parcels} or 0 (nothing is owed); done 1|0 (1: no other worker was
--            handed it); list ids[]; read with n: then the parcel}
-- Cost    O(leases), list O(entries), at most LIST_MAX

local LIST_MAX = 1000

local function list_owed(S, group)
  local ids = {}
  for _, id in ipairs(call('ZRANGE', S.b .. K.outbox_due, 0, LIST_MAX - 1)) do
    local note = Outbox.owed(S, id)
    for _, name in ipairs(note and note[2] or {}) do
      if group == '' or group == name then
        ids[#ids + 1] = id
        break
      end
    end
  end
  return ids
end

verb('owed', {'allow-oom'}, function(S, h, args)
  local reply
  if h.action == 'stage' then
    reply = {pack(Outbox.stage(S, h, args[2]) and 1 or 0)}
  elseif h.action == 'done' then
    reply = {pack(Outbox.done(S, h.id) and 1 or 0)}
  elseif h.action == 'list' then
    reply = {pack(list_owed(S, h.group))}
  else
    local note = Outbox.owed(S, h.id)
    reply = {pack(note and {note[1], note[3]} or 0), note and h.n > 0 and call('HGET', Outbox.key(S, h.id), h.n) or nil}
  end
  finish(S)
  return reply
end)
