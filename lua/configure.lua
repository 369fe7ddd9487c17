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
--   them: name (string, percent-encoded), limit (integer, permits), or of
--   limit=auto "start=min-max" (three integers): the limit to begin with where
--   no other session has one, and its bounds
-- Reply: session (string), epoch, number, status (ok, resync)
--
-- Run again it changes nothing. O(m c), m limits in the part, c configurations
-- that have these names.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/shard.lua"
-- @include "include/limits.lua"
-- @include "include/limits_withdraw.lua"
-- @include "include/limits_auto.lua"

local key = KEYS[1]
local session = session_name(1)
local epoch, echoed = integer(2, 1), integer(3)
local id = configuration_id(4)
local part, parts, names, limits = 0, 1, {}, {}

-- The limit in ARGV[i]: its number and, of limit=auto, "=min-max".
local function limit_argument(i)
    local text = ARGV[i] or ''
    local start, bounds = string.match(text, '^(%d+)(=.+)$')
    if not start then return integer(i), '' end
    local n = integers(i, '^(%d+)=(%d+)-(%d+)$')
    if n[2] > n[3] or n[1] < n[2] or n[1] > n[3] or n[3] > AUTO_MAX then
        error('DSEM argument ' .. i .. ' is not a limit in range', 0)
    end
    return n[1], bounds
end

if id ~= NO_CONFIGURATION then
    part, parts = integer(5), integer(6, 1)
    for n = 1, integer(7, 1, 16) do
        local number, bounds = limit_argument(7 + 2 * n)
        names[n] = encoded_name(6 + 2 * n)
        limits[n] = { number = number, bounds = bounds }
    end
end

-- The number of a group with limit=auto: that of the group with its bounds, or
-- as near to that of the others as its bounds allow.
local function number_found(text, limit)
    for _, group in ipairs(limits_groups(text)) do
        local number, bounds = string.match(group, '^(%d+)([=%d-]*)')
        if bounds == limit.bounds then return tonumber(number) end
    end
    local low, high = string.match(limit.bounds, '^=(%d+)-(%d+)$')
    return limits_clamp(limits_auto(text) or limit.number, tonumber(low),
        tonumber(high))
end

-- A name's field with one more configuration that has this limit; text: the
-- field, or false.
local function insert(text, limit)
    local groups, placed, number = {}, false, limit.number
    if limit.bounds ~= '' then number = number_found(text, limit) end
    for _, group in ipairs(limits_groups(text)) do
        local other, bounds = string.match(group, '^(%d+)([=%d-]*)')
        other = tonumber(other)
        if not placed and other > number then
            groups[#groups + 1] = number .. limit.bounds .. ' ' .. id
            placed = true
        elseif other == number and bounds == limit.bounds then
            if not string.find(group, ' ' .. id, 1, true) then
                group = group .. ' ' .. id
            end
            placed = true
        end
        groups[#groups + 1] = group
    end
    if not placed then
        groups[#groups + 1] = number .. limit.bounds .. ' ' .. id
    end
    return table.concat(groups, ';')
end

-- States the part. False: an earlier part is missing.
local function state()
    local config = limits_read(key, id)
    if part ~= config.stated then return part < config.stated end
    local pairs_of = {}
    for i, name in ipairs(names) do
        pairs_of[i] = name .. ' ' .. limits[i].number
    end
    limits_change(key, names, limits, insert)
    redis.call('HSET', key, 'names:' .. id .. ':' .. part,
        table.concat(pairs_of, ' '))
    config.stated, config.parts = config.stated + 1, parts
    limits_write(key, id, config)
    return true
end

local function reply(status)
    return { session, epoch, echoed, status }
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
