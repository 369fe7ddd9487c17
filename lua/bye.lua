-- bye: a session leaves at once, whatever it had. O(1): its accounts and
-- tickets are void, and each semaphore finds that out when somebody wants
-- its permits. The session is barred for one lease: a late hello of a
-- killed worker must not enter.
--
-- KEYS[1] meta HASH, KEYS[2] sessions ZSET, KEYS[3] epochs HASH
-- ARGV[1] session that speaks, ARGV[2] its epoch, ARGV[3] number
-- ARGV[4] session that leaves, its own or that of a dead predecessor
-- ARGV[5] lease in ms
-- Reply: ARGV[1], ARGV[2], ARGV[3], status (ok)
--
-- Run again it only prolongs the bar.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/registry.lua"

local meta, sessions, epochs = KEYS[1], KEYS[2], KEYS[3]
local speaker = session_name(1)
local epoch, number = integer(2), integer(3)
local session = session_name(4)
local lease = integer(5, 1)

redis.call('ZCARD', sessions)
redis.call('HLEN', epochs)
local clock = clock_tick(meta, sessions, lease)

redis.call('ZREM', sessions, session)
redis.call('HSET', epochs, session, 'bye ' .. (clock + lease))
redis.call('HSETNX', meta, 'bars', clock + lease)
registry_ended(meta)

return { speaker, epoch, number, STATUS.ok }
