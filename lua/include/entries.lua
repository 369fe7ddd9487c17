-- What only commands about sessions do: they write an entry, or send a message
-- to several sessions, see shard.lua.

local function entry_write(key, session, entry)
    redis.call('HSET', key, session, string.format('%.0f %.0f %.0f %.0f %s %s',
        entry.epoch, entry.declared, entry.lease, entry.ends, entry.seal,
        entry.configuration))
end

-- Sends a message to several sessions.
local function publish_all(key, sessions, text)
    if #sessions == 0 then return end
    local entries = redis.call('HMGET', key, unpack(sessions))
    for i, session in ipairs(sessions) do
        local entry = entry_parse(entries[i])
        if entry then entry_publish(key, session, entry, text) end
    end
end

-- Sends a message to the first sessions of the ZSET, at most to this number.
local function publish_fleet(key, sessions, most, text)
    publish_all(key, redis.call('ZRANGE', sessions, 0, most - 1), text)
end
