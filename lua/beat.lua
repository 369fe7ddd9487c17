-- beat: the heartbeat of a session. Moves the clock, renews the lease,
-- removes sessions whose lease has expired, and publishes "beat <number>" on
-- the session's own channel: the message proves that the subscription works.
--
-- KEYS[1] meta HASH, KEYS[2] sessions ZSET, KEYS[3] epochs HASH
-- KEYS[4] census ZSET
-- ARGV[1] session: string
-- ARGV[2] epoch: integer > 0
-- ARGV[3] number of the command: integer, echoed in reply and message
-- ARGV[4] generation that the session knows: integer
-- ARGV[5] lease: integer > 0, ms
-- Reply: session (string), epoch, number, status (ok, resync); if ok then
--   live sessions (while the state recovers: with those that are missing),
--   sessions removed by this call, ms until recovery ends at the latest (0:
--   none), 1: the message was published, 0: the user may not publish it:
--   integers
--
-- Idempotent. A removed session that is alive sends hello and declares again.
-- O(log n + r log n), n sessions, r <= 100 removed; once per lease O(n).

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/registry.lua"
-- @include "include/limits.lua"
-- @include "include/limits_withdraw.lua"
-- @include "include/census.lua"

local meta, sessions, epochs = KEYS[1], KEYS[2], KEYS[3]
local session = session_name(1)
local epoch, number = integer(2, 1), integer(3)
local gen, lease = integer(4), integer(5, 1)
-- sessions removed by one call at most: a script blocks all other commands
local REMOVED_AT_ONCE = 100

-- Deletes expired bars, in one pass over the registry per lease.
local function prune_bars(clock)
    local due = tonumber(redis.call('HGET', meta, 'bars'))
    if not due or due > clock then return end
    local left = false
    local all = redis.call('HGETALL', epochs)
    for i = 1, #all, 2 do
        local bar_end = tonumber(string.match(all[i + 1], '^bye (%d+)$'))
        if bar_end and bar_end <= clock then
            redis.call('HDEL', epochs, all[i])
        elseif bar_end then
            left = true
        end
    end
    if left then
        redis.call('HSET', meta, 'bars', clock + lease)
    else
        redis.call('HDEL', meta, 'bars')
    end
end

local current, declared = registry_read(epochs, session)
if current ~= epoch
    or tonumber(redis.call('HGET', meta, 'gen')) ~= gen
    or not redis.call('ZSCORE', sessions, session)
then
    return { session, epoch, number, STATUS.resync }
end

local clock = clock_tick(meta, sessions, lease)
redis.call('ZADD', sessions, clock + lease, session)
registry_write(epochs, session, epoch, declared, lease)

local expired = redis.call('ZRANGEBYSCORE', sessions, '-inf', clock,
    'LIMIT', 0, REMOVED_AT_ONCE)
for _, name in ipairs(expired) do
    redis.call('ZREM', sessions, name)
    redis.call('HDEL', epochs, name)
    registry_count_ended(meta)
    limits_leave(meta, name)
end
limits_withdraw(meta)
prune_bars(clock)

local recovery = math.max(
    (tonumber(redis.call('HGET', meta, 'recover_until')) or 0) - clock, 0)
local census = recovery > 0 and census_read(meta, KEYS[4])
local live = census_size(census, sessions, clock)

local published = redis.pcall('PUBLISH', meta .. ':c:' .. session,
    'beat ' .. ARGV[3])

return { session, epoch, number, STATUS.ok,
    live, #expired, recovery, type(published) == 'number' and 1 or 0 }
