-- put_document: stores a new version of a named text, or its deletion. At most `keep` versions are kept; the oldest go first.
--
-- KEYS    1: the base key of partition 0
-- ARGV    1: msgpack {i (a unique name of the call), salt, kind, name, expected (version, or -1: any), keep
--            (versions), who, note, digest, deleted}; 2: the text
-- Returns the new version; of a document that is already deleted, its last
-- Cost    O(versions dropped); idempotent by caller

verb('put_document', {'allow-oom'}, function(S, h, args)
  local kept, misuse = kept_answer(S, h.i, 1)
  if misuse then return misuse end
  if kept then return format('%d', kept[2]) end
  local full = not h.deleted and no_memory()
  if full then return full end
  local name = h.kind .. '|' .. h.name
  local raw = call('HGET', S.b .. K.documents, name)
  local head = raw and unpack_msg(raw) or {version = 0, oldest = 1}
  if h.deleted and head.version == 0 then return fail('NODOCUMENT', h.kind .. ' ' .. h.name) end
  if h.deleted and head.deleted then return format('%d', head.version) end
  if h.expected >= 0 and h.expected ~= head.version then
    return fail('VERSION', format('%s %s has version %d, not %d', h.kind, h.name, head.version, h.expected))
  end
  Document.put(S, name, {
    version = head.version + 1, oldest = head.oldest, at = S.now, who = h.who, note = h.note, digest = h.digest,
    deleted = h.deleted,
  }, head.version, args[2], h.keep, h.salt)
  finish(S)
  keep_answer(S, h.i, {1, head.version + 1}, ONCE_TTL)
  return format('%d', head.version + 1)
end)
