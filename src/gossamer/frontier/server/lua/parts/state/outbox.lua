-- Outbox: what settled pages owe beyond the call that settles them: children of other partitions, data for lists in other
-- slots, and whatever one call does not hold. It is written in the call that settles the pages and taken away when all of it
-- has arrived. So a page that is not settled sends nothing, and one that is settled loses nothing when its worker dies.
--
-- `outbox`<id> is a hash: 1, 2 … -> parcels, as their worker packed them; 'l' -> leases [[id, nonce]...] of pages whose parcels
-- came ahead, because they are too many for one call; 'n' -> {lost pages[], groups[], number of parcels}, once the pages are
-- settled; 't' -> that it was handed to another worker. `outbox_due` orders ids by when another worker looks after them. While
-- it is owed, each of its groups is open by one.

local Outbox = {}

local OUTBOX_LOOK = 2 -- entries that one call hands to its worker

function Outbox.key(S, id)
  return S.b .. K.outbox .. id
end

function Outbox.enter(S, id, at)
  if call('ZADD', S.b .. K.outbox_due, at, id) == 1 then S.m.ob = S.m.ob + 1 end
end

function Outbox.leave(S, id)
  call('UNLINK', Outbox.key(S, id))
  if call('ZREM', S.b .. K.outbox_due, id) == 1 then S.m.ob = max(0, S.m.ob - 1) end
end

function Outbox.any_held(S, leases)
  for _, l in ipairs(leases) do
    local raw = call('HGET', S.b .. K.leases, l[HELD.id])
    if raw and lease_table(raw)[LEASE.nonce] == l[HELD.nonce] then return true end
  end
  return false
end

-- A parcel that comes ahead of its pages. Nothing is kept for pages that were given away. Answers whether it is kept.
function Outbox.stage(S, h, parcel)
  local key = Outbox.key(S, h.id)
  if call('HEXISTS', key, 'n') == 1 or not Outbox.any_held(S, h.leases) then return false end
  call('HSET', key, 'l', pack(h.leases), h.n, parcel)
  Outbox.enter(S, h.id, S.now + h.lease)
  return true
end

-- An error reply if parcels that came ahead are gone while their pages are still held: the server went back to an older state.
function Outbox.problem(S, out, settle)
  if out.ahead == 0 or call('HLEN', Outbox.key(S, out.id)) > out.ahead then return nil end
  local leases = {}
  for i, page in ipairs(out.pages) do leases[i] = settle[page] end
  if Outbox.any_held(S, leases) then return fail('OUTBOX', out.id) end
end

-- The pages are settled, but for the lost ones: from now on their parcels are owed. out = {id, ahead (parcels that came ahead),
-- pages[] (numbers of settlements), children[] (of each page, for other partitions or beyond what one call holds), count (parcels here: the last
-- arguments)}. Answers whether anything is owed.
function Outbox.put(S, out, settle, args, lost, default_group, lease_ms)
  local missing, groups, named, owed = {}, {}, {}, false
  for _, page in ipairs(out.pages) do
    if lost[page] then
      missing[#missing + 1] = page
    else
      owed = true
      local group = settle[page][SETTLEMENT.group] or default_group
      if not named[group] then
        named[group] = true
        groups[#groups + 1] = group
        open_change(S, group, 1)
      end
    end
  end
  if not owed then
    for i, page in ipairs(out.pages) do
      local group = settle[page][SETTLEMENT.group] or default_group
      if Lane.group(S, group) then count(S, 'g|' .. group .. '|refused_children', out.children[i]) end
    end
    if out.ahead > 0 then Outbox.leave(S, out.id) end
    return false
  end
  local fields = {'n', pack({missing, groups, out.ahead + out.count})}
  for i = 1, out.count do
    fields[2 * i + 1], fields[2 * i + 2] = out.ahead + i, args[#args - out.count + i]
  end
  call_chunked('HSET', Outbox.key(S, out.id), fields)
  Outbox.enter(S, out.id, S.now + lease_ms)
  return true
end

-- All of it has arrived. Answers whether no other worker can have delivered it.
function Outbox.done(S, id)
  local v = call('HMGET', Outbox.key(S, id), 'n', 't')
  for _, group in ipairs(v[1] and unpack_msg(v[1])[2] or {}) do
    if Lane.group(S, group) then open_change(S, group, -1) end
  end
  Outbox.leave(S, id)
  S.changed = S.changed or v[1] ~= false
  return v[1] and not v[2]
end

-- An entry that is owed, to be handed to a worker. One whose pages were given away before they were settled is dropped.
function Outbox.owed(S, id)
  local v = call('HMGET', Outbox.key(S, id), 'n', 'l')
  if v[1] then
    call('HSET', Outbox.key(S, id), 't', 1)
    return unpack_msg(v[1])
  end
  if not v[2] or not Outbox.any_held(S, unpack_msg(v[2])) then Outbox.leave(S, id) end
end

-- Entries that their worker has left for the time of a lease: the one who asks is to deliver them.
function Outbox.due(S, lease_ms)
  local ids = {}
  if S.m.ob == 0 then return ids end
  for _, id in ipairs(call('ZRANGEBYSCORE', S.b .. K.outbox_due, '-inf', S.now, 'LIMIT', 0, OUTBOX_LOOK)) do
    call('ZADD', S.b .. K.outbox_due, S.now + lease_ms, id)
    if Outbox.owed(S, id) then ids[#ids + 1] = id end
  end
  return ids
end
