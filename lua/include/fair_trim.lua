-- Removes keys of one class from the fair ZSET, the lowest tags first, while it
-- has more than two members for each ticket that waits. V advances to the last
-- one: what is removed says nothing then. Returns V, see fair.lua.

-- Members that are not too many beside those, and keys removed by one call.
local FAIR_KEYS, FAIR_TRIMMED = 64, 64

local function fair_trim(key, class, V, waiting)
    local excess = redis.call('ZCARD', key) - 2 * waiting - FAIR_KEYS
    if excess <= 0 then return V end
    local lowest = class * 10000000000000
    local list = redis.call('ZRANGE', key, string.format('%d', lowest),
        string.format('%d', lowest + 9999999999999), 'BYSCORE', 'LIMIT', 0,
        math.min(excess, FAIR_TRIMMED), 'WITHSCORES')
    local gone = {}
    for i = 1, #list, 2 do
        gone[i], gone[i + 1] = list[i], '!' .. list[i]
        V = math.max(V, math.floor(list[i + 1] - lowest))
    end
    if #gone > 0 then redis.call('ZREM', key, unpack(gone)) end
    return V
end
