-- documents_version: a number that grows with every change of any document; read only. The config version that workers hear of
-- with every exchange changes with it, and so shows when it is worth asking.
--
-- KEYS    1: the base key of partition 0
-- ARGV    1: msgpack {}
-- Returns the number
-- Cost    O(1)

verb('documents_version', {'no-writes'}, function(S)
  return format('%d', tonumber(call('HGET', S.b .. K.meta, 'doc')) or 0)
end)
