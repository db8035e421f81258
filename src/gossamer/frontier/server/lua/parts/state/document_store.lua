-- Documents: small named texts with their last versions. `documents` maps kind|name -> the newest version's head; a hash per
-- document has the text of version n under n, and its head under hn.

local Document = {}

-- Writes a version and its head after `last`, the version before (0: none). The crawl's number of changes grows, and with the
-- policy stamp every worker hears of it.
function Document.put(S, name, head, last, text, keep, salt)
  local key, oldest = S.b .. K.document .. name, head.oldest
  head.oldest = max(oldest, head.version - keep + 1)
  head.size = #text
  for version = oldest, min(head.oldest - 1, last) do
    call('HDEL', key, format('%d', version), format('h%d', version))
  end
  local packed = pack(head)
  call('HSET', key, format('%d', head.version), text, format('h%d', head.version), packed)
  call('HSET', S.b .. K.documents, name, packed)
  call('HINCRBY', S.b .. K.meta, 'doc', 1)
  bump_config(S, salt)
end

-- A head as it is returned: name, version, at, who, note, deleted, digest, bytes.
function Document.told(name, raw)
  local head = unpack_msg(raw)
  return {name, head.version, head.at, head.who, head.note, head.deleted and 1 or 0, head.digest, head.size}
end
