-- beat: the heartbeat of a session. Moves the clock, renews the lease,
-- removes sessions whose lease has expired, and publishes "beat <number>" on
-- the session's own channel: the message proves that the subscription works.
--
-- KEYS[1] shard HASH, KEYS[2] sessions ZSET, KEYS[3] census ZSET,
-- KEYS[4] idle HASH
-- ARGV[1] session: string
-- ARGV[2] epoch: integer > 0
-- ARGV[3] number of the command: integer, echoed in reply and message
-- ARGV[4] generation that the session knows: integer
-- ARGV[5] lease: integer > 0, ms
-- ARGV[6] "", or idle permits of the session, 64 names at most: string, name
--   (percent-encoded), permits, name, permits ...
-- Reply: session (string), epoch, number, status (ok, resync); if ok then
--   live sessions (while the state recovers: with those that are missing;
--   negative: without them, their number is unknown),
--   sessions removed by this call, ms until recovery ends at the latest (0:
--   none), 1: the message was published, 0: the user may not publish it, ms
--   by which the wall clock has moved since the clock was moved last, negative
--   where it was set back, ms for which beats report idle permits (0: they are
--   not wanted), 1: the session was silent for two heartbeats, its tickets
--   may be parked until it sends a sync, 0: it was not, longest registered
--   lease in ms, clock, term of the state, 0: unknown: integers
-- Messages: "beat <number>"; "raised", see include/limits_withdraw.lua
--
-- A term that is not that of the session: another process has the state, and
-- the connection did not end, as behind a proxy. The session says hello.
--
-- Where the sessions ZSET is not as long as the head of the shard says, it
-- was lost, and with it the ends of leases: the next hello forgets the state.
-- Idempotent. A removed session that is alive sends hello and declares again.
-- O(log n + r log n), n sessions, r <= 64 removed.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/shard.lua"
-- @include "include/shard_write.lua"
-- @include "include/entries.lua"
-- @include "include/leases.lua"
-- @include "include/tick.lua"
-- @include "include/registry.lua"
-- @include "include/limits.lua"
-- @include "include/limits_withdraw.lua"
-- @include "include/census.lua"
-- @include "include/idle.lua"

local key, sessions = KEYS[1], KEYS[2]
local session = session_name(1)
local epoch, number = integer(2, 1), integer(3)
local gen, lease = integer(4), integer(5, 1)
local idle = idle_argument(6)
-- sessions removed by one call at most: a script blocks all other commands
local REMOVED_AT_ONCE = 64
-- bars deleted by one call at most
local PRUNED_AT_ONCE = 100

-- Removes sessions whose lease has expired. Returns their number.
local function remove_expired(shard)
    local expired = redis.call('ZRANGEBYSCORE', sessions, '-inf', shard.clock,
        'LIMIT', 0, REMOVED_AT_ONCE)
    if #expired == 0 then return 0 end
    local entries = redis.call('HMGET', key, unpack(expired))
    redis.call('ZREM', sessions, unpack(expired))
    redis.call('HDEL', key, unpack(expired))
    shard.sessions = shard.sessions - #expired
    local leases = {}
    for i, name in ipairs(expired) do
        registry_log_ended(shard, name)
        local entry = entry_parse(entries[i])
        if entry then
            limits_leave(key, sessions, entry.configuration, name)
            leases[entry.lease] = (leases[entry.lease] or 0) - 1
        end
    end
    leases_change(shard, leases)
    return #expired
end

local v = redis.call('HMGET', key, '.', session, 'watched', 'leases',
    'term')
local shard = shard_parse(key, v[1])
local entry = shard and entry_parse(v[2])
if not entry or entry.epoch ~= epoch or shard.gen ~= gen then
    return { session, epoch, number, STATUS.resync }
end
if redis.call('ZCARD', sessions) ~= shard.sessions then
    return { session, epoch, number, STATUS.resync }
end

local moved = clock_tick(shard, lease)
leases_move(shard, entry.lease, lease)
local silent = entry_silent(shard, entry.ends, entry.lease)
entry.lease, entry.ends = lease, shard.clock + lease
entry_write(key, session, entry)
redis.call('ZADD', sessions, entry.ends, session)

local removed = remove_expired(shard)
limits_withdraw(key, sessions)
registry_prune_bars(shard, PRUNED_AT_ONCE)
shard_write(shard)

local recovery = math.max(shard.recover_until - shard.clock, 0)
local wanted = idle_wanted(shard, v[3])
if wanted > 0 then idle_write(shard, KEYS[4], session, idle) end
local live = census_size(recovery > 0 and census_read(shard, KEYS[3]), shard)

local published = entry_publish(key, session, entry, 'beat ' .. ARGV[3])

return { session, epoch, number, STATUS.ok,
    live, removed, recovery, published and 1 or 0, moved, wanted,
    silent and 1 or 0, leases_last(v[4], lease), shard.clock,
    tonumber(v[5]) or 0 }
