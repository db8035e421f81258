-- The leader of a crawl's planners, as this partition has heard of it last. In meta: `lt` the term, `lu` until when it leads, `ln` its
-- name, and on partition 0, which gives the lead, `li` its incarnation. A term is never given twice, and grows.

local Leader = {}

-- Whether somebody leads at this moment.
function Leader.present(S)
  return S.m.leader_until > S.now
end

-- An error reply unless the caller leads: `term` is the one it was given. No term: whoever calls need not lead.
function Leader.refusal(S, term)
  if not term or term == 0 then return end
  local known = tonumber(call('HGET', S.b .. K.meta, 'lt')) or 0
  if term ~= known or not Leader.present(S) then return fail('NOTLEADER', format('%d', term)) end
end
