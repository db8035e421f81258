-- document: one version of a named text; read only.
--
-- KEYS    1: the base key of partition 0
-- ARGV    1: msgpack {kind, name, version (0: the newest)}
-- Returns {msgpack {name, version, at, who, note, deleted, digest, bytes} or {} if it is not there, the text}
-- Cost    O(text)

verb('document', {'no-writes'}, function(S, h)
  local name = h.kind .. '|' .. h.name
  local newest = call('HGET', S.b .. K.documents, name)
  if not newest then return {pack({}), ''} end
  local version = h.version > 0 and h.version or unpack_msg(newest).version
  local found = call('HMGET', S.b .. K.document .. name, format('h%d', version), format('%d', version))
  if not found[1] then return {pack({}), ''} end
  return {pack(Document.told(h.name, found[1])), found[2]}
end)
