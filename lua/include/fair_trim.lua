-- Removes keys of one class from the fair ZSET, the lowest tags first, while
-- that has more than two of the class for each ticket that waits, several at a
-- time. V advances to the last one: what is removed says nothing then. Returns
-- V, see fair.lua.

local function fair_trim(key, class, V, waiting)
    -- keys that are not too many beside those, and keys removed by one call, at
    -- least and at most
    local FAIR_KEYS, FAIR_EXCESS, FAIR_TRIMMED = 1024, 16, 64
    local excess = redis.call('ZCARD', key) - 2 * waiting - FAIR_KEYS
    if excess < FAIR_EXCESS then return V end
    local lowest = class * 10000000000000
    local first, last = string.format('%.0f', lowest),
        string.format('%.0f', lowest + 9999999999999)
    -- those of other classes say nothing about this one
    excess = redis.call('ZCOUNT', key, first, last) - 2 * waiting - FAIR_KEYS
    if excess < FAIR_EXCESS then return V end
    local list = redis.call('ZRANGE', key, first, last, 'BYSCORE', 'LIMIT', 0,
        math.min(excess, FAIR_TRIMMED), 'WITHSCORES')
    local gone = {}
    for i = 1, #list, 2 do
        gone[i], gone[i + 1] = list[i], '!' .. list[i]
        V = math.max(V, math.floor(list[i + 1] - lowest))
    end
    redis.call('ZREM', key, unpack(gone))
    return V
end
