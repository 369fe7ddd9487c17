-- bye: removes a session at once, with all that it holds: its own at exit, or
-- that of a dead worker of the same node. Its accounts and tickets become
-- void; each semaphore drops them when its permits are next wanted. The
-- session is barred for one lease, because a late hello of the dead worker
-- would register it again.
--
-- KEYS[1] meta HASH, KEYS[2] sessions ZSET, KEYS[3] epochs HASH
-- KEYS[4] census ZSET
-- ARGV[1] session that sends the command: string
-- ARGV[2] its epoch: integer
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] session to remove: string
-- ARGV[5] lease: integer > 0, ms
-- Reply: session (string), epoch, number, status (ok)
-- Messages: "recovered", see include/census.lua
--
-- Run again it only prolongs the bar. O(log n), n sessions.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/registry.lua"
-- @include "include/census.lua"

local meta, sessions, epochs = KEYS[1], KEYS[2], KEYS[3]
local session = session_name(1)
local epoch, number = integer(2), integer(3)
local leaving = session_name(4)
local lease = integer(5, 1)

-- a key of the wrong type must fail the script before its first write
redis.call('ZCARD', sessions)
redis.call('HLEN', epochs)
local clock = clock_tick(meta, sessions, lease)

redis.call('ZREM', sessions, leaving)
redis.call('HSET', epochs, leaving, 'bye ' .. (clock + lease))
redis.call('HSETNX', meta, 'bars', clock + lease)
registry_count_ended(meta)
census_declared(meta, KEYS[4], sessions, leaving, true)

return { session, epoch, number, STATUS.ok }
