-- configure: states the literal limits of the session's configuration, a part
-- per call, in order; or leaves the configuration, as an exiting worker does.
--
-- KEYS[1] shard HASH
-- ARGV[1] session: string
-- ARGV[2] epoch: integer > 0
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] id of the configuration: hex string, as in hello; "-": the session
--   leaves its configuration, and no more arguments follow
-- ARGV[5] number of the part: integer, from 0
-- ARGV[6] number of parts: integer > 0
-- ARGV[7] number of limits in this part: integer, 1 to 16; then for each of
--   them: name (string, percent-encoded), limit (integer, permits)
-- Reply: session (string), epoch, number, status (ok, resync)
--
-- Run again it changes nothing. O(m c), m limits in the part, c configurations
-- that have these names.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/shard.lua"
-- @include "include/limits.lua"
-- @include "include/limits_withdraw.lua"

local key = KEYS[1]
local session = session_name(1)
local epoch, number = integer(2, 1), integer(3)
local id = configuration_id(4)
local part, parts, names, limits = 0, 1, {}, {}

if id ~= NO_CONFIGURATION then
    part, parts = integer(5), integer(6, 1)
    for n = 1, integer(7, 1, 16) do
        names[n], limits[n] = encoded_name(6 + 2 * n), integer(7 + 2 * n)
    end
end

-- A name's field with one more configuration that has this limit; text: the
-- field, or false.
local function insert(text, limit)
    local groups, placed = {}, false
    for _, group in ipairs(limits_groups(text)) do
        local other = tonumber(string.match(group, '^%d+'))
        if not placed and other > limit then
            groups[#groups + 1] = limit .. ' ' .. id
            placed = true
        elseif other == limit then
            if not string.find(group, ' ' .. id, 1, true) then
                group = group .. ' ' .. id
            end
            placed = true
        end
        groups[#groups + 1] = group
    end
    if not placed then groups[#groups + 1] = limit .. ' ' .. id end
    return table.concat(groups, ';')
end

-- States the part. False: an earlier part is missing.
local function state()
    local config = limits_read(key, id)
    if part ~= config.stated then return part < config.stated end
    local pairs_of = {}
    for i, name in ipairs(names) do
        pairs_of[i] = name .. ' ' .. limits[i]
    end
    limits_change(key, names, limits, insert)
    redis.call('HSET', key, 'names:' .. id .. ':' .. part,
        table.concat(pairs_of, ' '))
    config.stated, config.parts = config.stated + 1, parts
    limits_write(key, id, config)
    return true
end

local function reply(status)
    return { session, epoch, number, status }
end

local v = redis.call('HMGET', key, '.', session)
local entry = shard_parse(key, v[1]) and entry_parse(v[2])
if not entry or entry.epoch ~= epoch then
    return reply(STATUS.resync)
end

if id == NO_CONFIGURATION then
    limits_leave(key, entry.configuration)
    entry.configuration = NO_CONFIGURATION
    entry_write(key, session, entry)
    limits_withdraw(key)
    return reply(STATUS.ok)
end

if entry.configuration ~= id or not state() then
    return reply(STATUS.resync)
end
return reply(STATUS.ok)
