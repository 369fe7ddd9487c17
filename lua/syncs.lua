-- syncs: the changes of one session to several quiet semaphores in one turn of
-- its event loop. For each semaphore it executes what sync would, if that is
-- quiet: nothing waits, and all that is acquired is free. Any other semaphore
-- is left as it is, and the session sends its changes as a sync.
--
-- KEYS[1] shard HASH; then for each of 1 to 16 semaphores
--   KEYS[2] its HASH, KEYS[3] its queue ZSET
-- ARGV[1] session: string
-- ARGV[2] three integers: epoch; number of the command, echoed; generation that
--   the session knows; then for each semaphore
-- ARGV[3] its name: string, percent-encoded
-- ARGV[4] four integers: limit by the worker's configuration, permits; flags,
--   see sync; released, permits; number of acquires
-- ARGV[5] and so on, a string of integers for each acquire, see sync
-- Reply: session (string), epoch, number, status (ok); then for each semaphore
--   1: it was left as it is; or 0 and the integers that follow the status in
--   the reply of sync.
--
-- Not idempotent: a session sends it once; after a lost reply it sends hello.
-- O(k), k semaphores and tickets in the call.

-- @include "include/expiry.lua"
-- @include "include/quiet.lua"
-- @include "include/arguments.lua"

-- semaphores of one call: a script blocks all other commands
local SEMAPHORES = 16

local HEAD, CHANGES = '^(%d+) (%d+) (%d+)$', '^(%d+) (%d+) (%d+) (%d+)$'

-- The changes of each semaphore: index of the first acquire, their number,
-- limit (as text), flags, released. Nothing is written before all are read.
-- Also returns the fields of the shard: head, entry, order and limits of each.
local function read_changes(session)
    local list, fields, at = {}, { '.', session }, 3
    local count = (#KEYS - 1) / 2
    if count < 1 or count > SEMAPHORES or count % 1 ~= 0 then
        error('DSEM keys are not those of 1 to 16 semaphores', 0)
    end
    for n = 1, count do
        local limit, flags, released, acquires = string.match(
            ARGV[at + 1] or '', CHANGES)
        if not limit then
            error('DSEM argument ' .. at + 1 .. ' is not a list of integers', 0)
        end
        acquires = tonumber(acquires)
        list[n] = { at + 2, acquires, limit, tonumber(flags),
            tonumber(released) }
        fields[2 * n + 1] = 'order:' .. ARGV[at]
        fields[2 * n + 2] = 'limit:' .. ARGV[at]
        at = at + 2 + acquires
    end
    if at ~= #ARGV + 1 then
        error('DSEM argument ' .. #ARGV .. ' is not the last one', 0)
    end
    return list, fields
end

local session, head = session_name(1), integers(2, HEAD)
local epoch, _, gen = string.match(ARGV[2], HEAD)
local list, fields = read_changes(session)
local shard = redis.call('HMGET', KEYS[1], unpack(fields))
local ended, clock = usual_shard(shard, gen, epoch)

-- Executes the changes of semaphore n, see quiet_sync().
local function execute(n, first, acquires, limit, flags, released)
    local weights, in_force = usual_changes(first, acquires, limit, flags,
        released, shard[2 * n + 1], flags % 8 >= 4 and shard[2 * n + 2])
    if not weights then return nil end
    local values = redis.pcall('HMGET', KEYS[2 * n], '.', session)
    if values.err then return nil end
    return quiet_sync(KEYS[2 * n], KEYS[2 * n + 1], shard, values, ended,
        clock, epoch, acquires, limit, flags, released, weights, in_force)
end

local reply, last = { session, head[1], head[2], 0 }, 4
for n, changes in ipairs(list) do
    local values = ended and { execute(n, unpack(changes)) } or {}
    last = last + 1
    reply[last] = values[1] and 0 or 1
    for i = 1, #values do reply[last + i] = values[i] end
    last = quiet_others(reply, last + #values, values[1] and changes[2] or 0)
end
return reply
