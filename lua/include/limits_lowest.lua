-- The limit in force of a name with literal limits, see limits.lua: its field
-- has the lowest one first, with the configurations that ask for it.

-- configurations looked at by one call for a node that asks for a lower limit,
-- and those shown that ask for another one
local LOOKED_AT, OTHERS = 16, 8

-- The lowest limit of a name, from its field; nil: no configuration has it.
local function limits_lowest(text)
    -- R16: limit in force
    return text and tonumber(string.match(text, '^%d+'))
end

-- Another node that asks for the lowest limit of a name, or nil. It is one with
-- the name of this session's node only where no other asks for it.
local function limits_node(key, text, session)
    local own = string.match(session, '^[^:]+')
    local fields = {}
    for id in string.gmatch(string.match(text, '^[^;]+'), ' (%S+)') do
        fields[#fields + 1] = 'config:' .. id
        if #fields == LOOKED_AT then break end
    end
    local configs, namesake = redis.call('HMGET', key, unpack(fields)), nil
    for i = 1, #fields do
        local sessions, node =
            string.match(configs[i] or '', '^(%d+) .* (%S+) %S+$')
        if node and node ~= own then return node end
        if node and sessions ~= '0' then namesake = node end
    end
    return namesake
end

-- Live configurations with another limit than the lowest, from the field of a
-- name, or false: the limit, and a node that has it.
local function limits_others(key, text)
    local list, fields = {}, {}
    local from = string.find(text or '', ';', 1, true)
    local lowest = from and limits_lowest(text)
    while from and #list < OTHERS do
        local limit, last = string.match(text, '^(%d+)[=%d-]*()',
            from + 1)
        local stop = string.find(text, ';', from + 1, true)
        while last and #list < OTHERS do
            local id
            id, last = string.match(text, '^ (%x+)()', last)
            if id and tonumber(limit) ~= lowest then
                list[#list + 1] = { limit = tonumber(limit) }
                fields[#list] = 'config:' .. id
            end
        end
        from = stop
    end
    if #list == 0 then return list end
    local configs, live = redis.call('HMGET', key, unpack(fields)), {}
    for i, config in ipairs(list) do
        local sessions, node =
            string.match(configs[i] or '', '^(%d+) .* ([%w._-]+) %x+$')
        if node and #node <= 255 and sessions ~= '0' then
            config.node = node
            live[#live + 1] = config
        end
    end
    return live
end
