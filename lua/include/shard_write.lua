-- @include "include/ended.lua"

-- Stores the head and the log of the ended, if they have changed.
local function shard_write(shard)
    local text = string.format(
        '%d %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f %.0f', LAYOUT, shard.gen,
        shard.clock, shard.wall, shard.recover_until, shard.ended,
        shard.sessions, shard.first_bar, shard.last_bar, shard.lease)
    if text == shard.text then return end
    shard.text = text
    local set, gone = { 'HSET', shard.key, '.', text }, { 'HDEL', shard.key }
    local first = shard.ended - #shard.logged
    for i, session in ipairs(shard.logged) do
        set[#set + 1] = string.format('ended:%.0f', first + i)
        set[#set + 1] = session
        gone[#gone + 1] = string.format('ended:%.0f', first + i - LOGGED)
    end
    shard.logged = {}
    redis.call(unpack(set))
    if #gone > 2 then redis.call(unpack(gone)) end
end
