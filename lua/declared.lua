-- declared: ends the declaration of a session. Accounts and tickets of its
-- older epochs are void from now on. The last session that was missing ends
-- the recovery.
--
-- KEYS[1] shard HASH, KEYS[2] sessions ZSET, KEYS[3] census ZSET
-- ARGV[1] session: string
-- ARGV[2] epoch: integer > 0
-- ARGV[3] number of the command: integer, echoed
-- Reply: session (string), epoch, number, status (ok, resync); if ok then
--   ms until recovery ends at the latest (0: none)
-- Messages: "recovered", see include/census.lua
--
-- Run again it has no other effect than to end a recovery. O(1); while the
-- state recovers O(log n), n sessions.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/shard.lua"
-- @include "include/shard_write.lua"
-- @include "include/entries.lua"
-- @include "include/leases.lua"
-- @include "include/registry.lua"
-- @include "include/census.lua"

local session = session_name(1)
local epoch, number = integer(2, 1), integer(3)

local v = redis.call('HMGET', KEYS[1], '.', session)
local shard = shard_parse(KEYS[1], v[1])
local entry = shard and entry_parse(v[2])
if not entry or entry.epoch ~= epoch then
    return { session, epoch, number, STATUS.resync }
end

-- the first epoch of a session has none before it
if epoch > 1 and entry.declared < epoch then
    registry_log_ended(shard, session)
end
entry.declared = epoch
entry_write(shard.key, session, entry)
local recovery = census_declared(shard, KEYS[3], KEYS[2], session, false)
shard_write(shard)

return { session, epoch, number, STATUS.ok, recovery }
