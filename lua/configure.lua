-- configure: states the literal limits of the session's configuration, a part
-- per call, in order; or leaves the configuration, as an exiting worker does.
--
-- KEYS[1] shard HASH, KEYS[2] sessions ZSET
-- ARGV[1] session: string
-- ARGV[2] epoch: integer > 0
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] id of the configuration: hex string, as in hello; "-": the session
--   leaves its configuration, and no more arguments follow
-- ARGV[5] number of the part: integer, from 0
-- ARGV[6] number of parts: integer > 0
-- ARGV[7] number of limits in this part: integer, 1 to 4; then for each of
--   them: name (string, percent-encoded), limit (integer, permits), or of
--   limit=auto "start=min-max" (three integers): the limit to begin with where
--   no other session has one, and its bounds
-- Reply: session (string), epoch, number, status (ok, resync)
-- Messages: "raised", see include/limits_withdraw.lua
--
-- Run again it changes nothing. O(m log c), m limits in the part, c
-- configurations that have these names; it copies their fields.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/integers.lua"
-- @include "include/shard.lua"
-- @include "include/entries.lua"
-- @include "include/limits.lua"
-- @include "include/limits_withdraw.lua"

local key = KEYS[1]
local session = session_name(1)
local epoch, echoed = integer(2, 1), integer(3)
local digest = configuration_id(4)
local id = digest
local part, parts, names, limits = 0, 1, {}, {}

-- The limit in ARGV[i], without leading zeros.
local function limit_argument(i)
    if not limits_sign(ARGV[i]) then
        return string.format('%.0f', integer(i))
    end
    local n = integers(i, '^(%d+)=(%d+)-(%d+)$')
    if n[2] > n[3] or n[1] < n[2] or n[1] > n[3] or n[3] > AUTO_MAX then
        error('DSEM argument ' .. i .. ' is not a limit in range', 0)
    end
    return string.format('%.0f=%.0f-%.0f', n[1], n[2], n[3])
end

if digest ~= NO_CONFIGURATION then
    part, parts = integer(5), integer(6, 1)
    for n = 1, integer(7, 1, 4) do
        names[n] = encoded_name(6 + 2 * n)
        limits[n] = limit_argument(7 + 2 * n)
    end
end

-- A name's fields with one more configuration that has this limit.
local function insert(text, limit, bounds)
    if limits_sign(limit) then
        return limits_auto_insert(text, limit, bounds, id)
    end
    local first, stop = limits_group(text, limit)
    if first then return limits_add(text, first, stop, id), bounds end
    local at = limits_place(text, tonumber(limit))
    return string.sub(text, 1, at - 1) .. limit .. ' ' .. id .. ';'
        .. string.sub(text, at), bounds
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
    redis.call('HSET', key, 'names:' .. id .. '/' .. part,
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

if digest == NO_CONFIGURATION then
    limits_leave(key, KEYS[2], entry.configuration, session)
    entry.configuration = NO_CONFIGURATION
    entry_write(key, session, entry)
    limits_withdraw(key, KEYS[2])
    return reply(STATUS.ok)
end

id = limits_id(key, digest)
if entry.configuration ~= id or not state() then
    return reply(STATUS.resync)
end
return reply(STATUS.ok)
