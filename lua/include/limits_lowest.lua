-- The limit in force of a name with literal limits, see limits.lua: its field
-- has the lowest one first, with the configurations that ask for it.

-- sessions searched by one call for the node that asks for a lower limit
local SEARCHED_AT_ONCE = 100

-- The lowest limit of a name, from its field; nil: no configuration has it.
local function limits_lowest(text)
    return text and tonumber(string.match(text, '^%d+'))
end

-- Another node with a session that asks for the lowest limit of a name, or nil.
-- A large registry is searched in pieces, another one by each call.
local function limits_node(view, text, session, number)
    local ids = string.match(text, '^[^;]+')
    local own = string.match(session, '^[^:]+')
    local pieces = math.ceil(redis.call('ZCARD', view.registry)
        / SEARCHED_AT_ONCE)
    local first = number % math.max(pieces, 1) * SEARCHED_AT_ONCE
    local names = redis.call('ZRANGE', view.registry, first,
        first + SEARCHED_AT_ONCE - 1)
    if #names == 0 then return nil end
    local fields = {}
    for i, name in ipairs(names) do fields[i] = 'session:' .. name end
    local found = redis.call('HMGET', view.meta, unpack(fields))
    for i, name in ipairs(names) do
        local node = string.match(name, '^[^:]+')
        if node ~= own and found[i]
            and string.find(ids, ' ' .. found[i], 1, true)
        then
            return node
        end
    end
end
