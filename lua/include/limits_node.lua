-- Another node that asks for the lowest limit of a name, or nil. It is one with
-- the name of this session's node only where no other asks for it.
local function limits_node(key, text, session)
    -- configurations read by one call
    local LOOKED_AT = 16
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
        if node and node ~= '-' and sessions ~= '0' then
            if node ~= own then return node end
            namesake = node
        end
    end
    return namesake
end
