-- The limit in force of a name with literal limits, see limits.lua: its field
-- has the lowest one first, with the configurations that ask for it.

-- configurations looked at by one call for a node that asks for a lower limit
local LOOKED_AT = 16

-- The lowest limit of a name, from its field; nil: no configuration has it.
local function limits_lowest(text)
    return text and tonumber(string.match(text, '^%d+'))
end

-- Another node that asks for the lowest limit of a name, or nil.
local function limits_node(key, text, session)
    local own = string.match(session, '^[^:]+')
    local fields = {}
    for id in string.gmatch(string.match(text, '^[^;]+'), ' (%S+)') do
        fields[#fields + 1] = 'config:' .. id
        if #fields == LOOKED_AT then break end
    end
    local configs = redis.call('HMGET', key, unpack(fields))
    for i = 1, #fields do
        local node = string.match(configs[i] or '', '(%S+)$')
        if node and node ~= own then return node end
    end
end
