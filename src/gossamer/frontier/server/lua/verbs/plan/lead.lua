-- lead: grants, renews and ends the lead of the crawl's planners. Partition 0 grants it; the others hear of it, and reject calls of
-- former leaders.
--
-- KEYS    1: the partition's base key
-- ARGV    1: msgpack {action (on partition 0: take|keep|resign; on the others: hear|resign), incarnation, name, term (the one given; 0
--            for take), least (the term to give is above it), lease_ms}
-- Returns msgpack {state (granted|busy|lost|behind), term, name, until ms, now ms} of the leader in force; behind: this partition knows
--            a later term than the one in the call
-- Cost    O(1)

local function lead(S, term, name, incarnation, ends)
  call('HSET', S.b .. K.meta, 'lt', format('%d', term), 'ln', name, 'li', incarnation, 'lu', format('%d', ends))
  S.m.leader_until = ends
  finish(S)
end

verb('lead', {'allow-oom'}, function(S, h)
  local v = call('HMGET', S.b .. K.meta, 'lt', 'ln', 'li')
  local term, name, mine = tonumber(v[1]) or 0, v[2] or '', v[3] == h.i
  local function told(state) return pack({state, term, name, S.m.leader_until, S.now}) end
  if h.action == 'take' then
    if Leader.present(S) and not mine then return told('busy') end
    term = max(S.now, term + 1, h.least + 1)
  elseif h.action == 'hear' then
    if h.term < term then return told('behind') end
    term = h.term
  elseif not mine or h.term ~= term then
    return told('lost')
  end
  name = h.name
  if h.action == 'resign' then lead(S, term, '', '', 0) else lead(S, term, name, h.i, S.now + h.lease) end
  return told('granted')
end)
