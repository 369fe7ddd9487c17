-- bye: removes a session at once, with all that it holds: its own at exit, or
-- that of a dead worker of the same node. Its accounts and tickets become
-- void; each semaphore drops them at its next command. The session is barred
-- for one lease, because a late hello of the dead worker would register it
-- again.
--
-- KEYS[1] shard HASH, KEYS[2] sessions ZSET, KEYS[3] census ZSET
-- ARGV[1] session that sends the command: string
-- ARGV[2] its epoch: integer
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] session to remove: string
-- ARGV[5] lease: integer > 0, ms
-- ARGV[6] optional, for operators. Given: a session that is not registered is
--   not barred; 1: one that is not silent stays
-- Reply: session (string), epoch, number, status (ok), 1: removed, 0: it was
--   not registered, 2: it is not silent, and stays: integers
-- Messages: "recovered", see include/census.lua; "raised"
--
-- Run again it only prolongs the bar. O(log n), n sessions.

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

local session = session_name(1)
local epoch, number = integer(2), integer(3)
local leaving = session_name(4)
local lease = integer(5, 1)
local careful = ARGV[6] and integer(6, 0, 1)
local REMOVED, UNKNOWN, HEARD = 1, 0, 2
-- bars deleted by one call at most, which adds one: where reloads follow each
-- other faster than heartbeats no session beats
local PRUNED_BY_BYE = 4

-- a key of the wrong type must fail the script before its first write
redis.call('ZCARD', KEYS[2])
local v = redis.call('HMGET', KEYS[1], '.', leaving)
local shard = shard_parse(KEYS[1], v[1])
local entry = entry_parse(v[2])
if not shard or careful and not entry then
    return { session, epoch, number, STATUS.ok, UNKNOWN }
end

clock_tick(shard, lease)
if careful == 1 and not entry_silent(shard, entry.ends, entry.lease) then
    shard_write(shard)
    return { session, epoch, number, STATUS.ok, HEARD }
end
registry_prune_bars(shard, PRUNED_BY_BYE)
registry_bar(shard, leaving, shard.clock
    + math.max(lease, entry and entry.lease or 0))
registry_log_ended(shard, leaving)
if entry then
    redis.call('ZREM', KEYS[2], leaving)
    shard.sessions = shard.sessions - 1
    leases_change(shard, { [entry.lease] = -1 })
    limits_leave(shard.key, KEYS[2], entry.configuration, leaving)
end
limits_withdraw(shard.key, KEYS[2])
census_declared(shard, KEYS[3], KEYS[2], leaving, true)
shard_write(shard)

return { session, epoch, number, STATUS.ok, entry and REMOVED or UNKNOWN }
