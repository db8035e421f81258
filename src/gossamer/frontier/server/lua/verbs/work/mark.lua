-- mark: a memory on its own, without queues: which of these fingerprints are new? They are known afterwards.
--
-- KEYS    1: the memory's base key
-- ARGV    1: msgpack {incarnation, sequence, policy, fingerprints[], action (mark|probe|forget|count|bytes|purge)}
-- Returns letters: y (new, or known for probe, or forgotten) or n; for count and bytes the number; for purge 1 when gone
-- Cost    O(fingerprints); idempotent by (incarnation, sequence)

register('mark', {'allow-oom'}, function(keys, args)
  local base, h = keys[1], unpack_msg(args[1])
  local kept_key = base .. K.answers .. h.i
  local raw = call('GET', kept_key)
  local kept = raw and unpack_msg(raw)
  if kept and kept[1] == h.s then return kept[2] end
  local full = h.action == 'mark' and no_memory()
  if full then return full end
  local now = stored_now(base .. K.meta)
  local book = Seen.open(base .. K.seen .. '0', h.policy, now)
  if h.action == 'count' then return format('%d', book.kind.count(book)) end
  if h.action == 'bytes' then return format('%d', book.kind.bytes(book)) end
  if h.action == 'purge' then return book.kind.purge(book, 1000) and '1' or '0' end
  local out = {}
  for i, fp in ipairs(h.fps) do
    local yes
    if h.action == 'mark' then
      yes = book.kind.add(book, fp)
    elseif h.action == 'probe' then
      yes = book.kind.has(book, fp)
    else
      yes = book.kind.forget(book, fp)
    end
    out[i] = yes and 'y' or 'n'
  end
  book.kind.save(book)
  local letters = table.concat(out)
  call('SET', kept_key, pack({h.s, letters}), 'PX', ANSWER_TTL)
  return letters
end)
