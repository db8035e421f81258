-- page_versions: which version of pages was read last; read only.
--
-- KEYS    1: the base key of the partition of the pages
-- ARGV    1: msgpack {group, names[]}
-- Returns {msgpack {born of the group or '', change counter}, msgpack of the others as put_page_versions stored them last or '', edition of
--            the rules or '', the versions, by name ('': not known)...}
-- Cost    O(names)

verb('page_versions', {'no-writes'}, function(S, h)
  local group, values = Lane.group(S, h.group), S.b .. K.versions .. h.group
  local found = #h.names > 0 and read_many(values, h.names) or {}
  for i = 1, #h.names do found[i] = found[i] or '' end
  table.insert(found, 1, call('HGET', values, 'edition') or '')
  table.insert(found, 1, call('HGET', values, '') or '')
  table.insert(found, 1, pack({group and group.born or '', S.m.chg}))
  return found
end)
