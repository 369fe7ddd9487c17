-- Removes keys of one class from the fair ZSET, the lowest tags first: those
-- not above V, and more while there are more than two keys for each ticket that
-- waits. Returns V, see fair.lua.

-- Keys in the ZSET beyond two for each ticket, and keys looked at to remove
-- some, by one call.
local FAIR_KEYS, FAIR_TRIMMED = 64, 32

local function fair_trim(key, class, V, waiting)
    local lowest = class * 10000000000000
    local list = redis.call('ZRANGE', key, string.format('%.0f', lowest),
        string.format('%.0f', lowest + 9999999999999), 'BYSCORE', 'LIMIT', 0,
        FAIR_TRIMMED, 'WITHSCORES')
    local excess = redis.call('ZCARD', key) - 2 * waiting - FAIR_KEYS
    local gone = {}
    for i = 1, #list, 2 do
        local F = list[i + 1] - lowest
        if F > V then
            if excess <= 0 then break end
            V = F
        end
        excess = excess - 1
        gone[#gone + 1], gone[#gone + 2] = list[i], '!' .. list[i]
    end
    if #gone > 0 then redis.call('ZREM', key, unpack(gone)) end
    return V
end
