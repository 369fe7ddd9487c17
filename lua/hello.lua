-- hello: registers a session, or raises its epoch. It is the first command of
-- every connection; declare for each account and declared follow.
--
-- KEYS[1] meta HASH, KEYS[2] sessions ZSET, KEYS[3] epochs HASH
-- KEYS[4] census ZSET
-- ARGV[1] session: string
-- ARGV[2] epoch: integer > 0
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] generation that the session remembers: integer, 0: none
-- ARGV[5] generation to set if there is none: integer > 0, random
-- ARGV[6] lease: integer > 0, ms
-- ARGV[7] run id of the Redis process, from INFO: hex string
-- ARGV[8] sessions, in the last answer to this session: integer, 0: the session
--   has had none, it was never registered
-- ARGV[9] age of the last answered hello or beat of the session: integer, ms
-- ARGV[10] id of the worker's configuration, a digest of its literal limits:
--   hex string; "-": it has none, or the worker exits and does not count
-- Reply: session (string), epoch, number, status (ok, stale, gone); if ok then
--   generation, live sessions (while the state recovers: with those that are
--   missing), ms until recovery ends at the latest (0: none),
--   1: the session was registered, 0: it is new or its lease had expired,
--   1: the limits of the configuration have to be stated (configure), 0: known
-- Messages: "recovered", see include/census.lua; "sessions <n>" to four others
--   when a new session makes it n
--
-- A missing generation means that Redis lost all state, or a first start. Only
-- a missing generation is set: replacing a different one would go on without
-- end between two sessions. A session that remembers another generation proves
-- that there was state, so recovery lasts until all sessions that were
-- registered have declared, one lease from the creation of the new generation
-- at most; a first start causes no pause. State that another process wrote (a
-- promoted replica, a restart from disk) may lack the last writes and causes
-- the same recovery.
--
-- Run again with the same epoch it replies stale and changes nothing but the
-- clock. O(log n), n sessions.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/registry.lua"
-- @include "include/limits.lua"
-- @include "include/census.lua"

local meta, sessions, epochs = KEYS[1], KEYS[2], KEYS[3]
local session = session_name(1)
local epoch, number = integer(2, 1), integer(3)
local known, fresh, lease = integer(4), integer(5, 1), integer(6, 1)
local run = run_id(7)
local told, age = integer(8), integer(9)
local configuration = configuration_id(10)
-- sessions that are notified of a new one
local NOTIFIED = 4

-- The session registers with a configuration. Returns 1 if its limits have to
-- be stated (configure), 0 if they are known.
local function join(id)
    local joined = redis.call('HGET', meta, 'session:' .. session)
    if joined and joined ~= id then limits_leave(meta, session) end
    if id == NO_CONFIGURATION then return 0 end
    local count, stated, parts = limits_read(meta, id)
    if joined ~= id then
        redis.call('HSET', meta, 'session:' .. session, id)
        limits_write(meta, id, count + 1, stated, parts)
    end
    return parts > 0 and stated == parts and 0 or 1
end

local function reply(status, ...)
    return { session, epoch, number, status, ... }
end

-- a key of the wrong type must fail the script before its first write
redis.call('ZCARD', sessions)
local current, declared = registry_read(epochs, session)
local bar_end = not current and declared
local clock = clock_tick(meta, sessions, lease)

if bar_end and bar_end > clock then
    return reply(STATUS.gone)
end
if current and current >= epoch then
    return reply(STATUS.stale)
end

local v = redis.call('HMGET', meta, 'gen', 'created', 'run', 'wall')
local gen, created = tonumber(v[1]), tonumber(v[2]) or 0
local restarted = v[3] and v[3] ~= run

if not gen then
    -- leases in a registry that is left over are times of another clock, and
    -- its sessions would never leave their configurations
    redis.call('UNLINK', meta, sessions, epochs)
    current = nil
    gen, created = fresh, clock
    redis.call('HSET', meta, 'gen', string.format('%.0f', gen),
        'created', created, 'clock', clock, 'wall', v[4])
end
redis.call('HSET', meta, 'run', run)
redis.call('HSETNX', meta, 'recover_until', 0)

local lost = known ~= 0 and known ~= gen
local census = census_read(meta, KEYS[4])
if not census or census.gen ~= gen or restarted then
    census = census_begin(meta, KEYS[4], census, sessions, gen,
        restarted and clock or created, lease, restarted, clock)
end
if lost then
    census.lost = true
    census.lease = math.max(census.lease, lease)
end
if census_open(census, clock) then
    census_hello(census, session, clock, lease,
        told > 0 and (lost or census.any and known ~= 0), told, age)
end
census_write(census)

redis.call('ZADD', sessions, clock + lease, session)
registry_write(epochs, session, epoch, current and declared or 0, lease)
local unknown = join(configuration)

local recovery = census_judge(census, sessions, clock)
local size = census_size(census, sessions, clock)

-- The others learn of a new session with their next beat. If state is lost
-- before that, one that knows of it makes the census wait for it.
if not current then
    local others = redis.call('ZRANGE', sessions, -1 - NOTIFIED, -1)
    for _, other in ipairs(others) do
        if other ~= session then
            redis.pcall('PUBLISH', meta .. ':c:' .. other, 'sessions ' .. size)
        end
    end
end

return reply(STATUS.ok, gen, size, recovery, current and 1 or 0, unknown)
