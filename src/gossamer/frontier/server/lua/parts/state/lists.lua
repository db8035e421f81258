-- Lists of others: what pages push to ordinary lists, which their users read with any client.

local Lists = {}

-- An error reply if something cannot be pushed to one of these keys. Asked before anything is written: a function that fails
-- halfway is not undone.
function Lists.problem(keys)
  for _, key in ipairs(keys) do
    if not redis.acl_check_cmd('RPUSH', key, '') then return fail('LISTRIGHT', key) end
    local kind = call('TYPE', key)
    kind = type(kind) == 'table' and kind.ok or kind
    if kind ~= 'list' and kind ~= 'none' then return fail('LISTTYPE', 'key ' .. key .. ' is a ' .. kind) end
  end
end

-- lists: key, number of data, key, number of data...; the data are args[from..] in this order.
function Lists.push(lists, args, from)
  for i = 1, #lists, 2 do
    local last = from + lists[i + 1] - 1
    for first = from, last, UNPACK_MAX do
      call('RPUSH', lists[i], unpack(args, first, min(first + UNPACK_MAX - 1, last)))
    end
    from = last + 1
  end
end
