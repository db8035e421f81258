-- documents: the newest version of every document of a kind, or every kept version of one; without texts, read only.
--
-- KEYS    1: the base key of partition 0
-- ARGV    1: msgpack {kind ('': all kinds, named kind|name), name ('': all of the kind)}
-- Returns msgpack [[name, version, at, who, note, deleted, digest, bytes]...], by name or from the newest version to the oldest
-- Cost    O(documents of the crawl), or O(versions)

local function versions(S, name, plain)
  local raw, rows = call('HGET', S.b .. K.documents, name), {}
  if not raw then return rows end
  local head, fields = unpack_msg(raw), {}
  for version = head.version, head.oldest, -1 do fields[#fields + 1] = format('h%d', version) end
  for _, kept in ipairs(read_many(S.b .. K.document .. name, fields)) do
    -- What came from a snapshot may have begun with a later version.
    if kept then rows[#rows + 1] = Document.told(plain, kept) end
  end
  return rows
end

verb('documents', {'no-writes'}, function(S, h)
  if h.name ~= '' then return pack(versions(S, h.kind .. '|' .. h.name, h.name)) end
  local all, rows, prefix = call('HGETALL', S.b .. K.documents), {}, h.kind == '' and '' or h.kind .. '|'
  for i = 1, #all, 2 do
    if sub(all[i], 1, #prefix) == prefix then rows[#rows + 1] = Document.told(sub(all[i], #prefix + 1), all[i + 1]) end
  end
  table.sort(rows, function(a, b) return a[1] < b[1] end)
  return pack(rows)
end)
