-- declared: ends the declaration of a session. Accounts and tickets of its
-- older epochs are void from now on. The last session that was missing ends
-- the recovery.
--
-- KEYS[1] meta HASH, KEYS[2] sessions ZSET, KEYS[3] epochs HASH
-- KEYS[4] census ZSET
-- ARGV[1] session: string
-- ARGV[2] epoch: integer > 0
-- ARGV[3] number of the command: integer, echoed
-- Reply: session (string), epoch, number, status (ok, resync); if ok then
--   ms until recovery ends at the latest (0: none)
-- Messages: "recovered", see include/census.lua
--
-- Run again it makes every semaphore check its accounts once more, and has no
-- other effect. O(1); while the state recovers O(log n), n sessions.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/registry.lua"
-- @include "include/census.lua"

local meta, sessions, epochs = KEYS[1], KEYS[2], KEYS[3]
local session = session_name(1)
local epoch, number = integer(2, 1), integer(3)

local current, _, lease = registry_read(epochs, session)
if current ~= epoch then
    return { session, epoch, number, STATUS.resync }
end

registry_count_ended(meta)
registry_write(epochs, session, epoch, epoch, lease)

return { session, epoch, number, STATUS.ok,
    census_declared(meta, KEYS[4], sessions, session, false) }
