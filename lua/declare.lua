-- declare: states the account of a session, permits held and tickets waiting,
-- in absolute figures. They replace the account of all older epochs, so late
-- commands of an older connection have no effect any more.
--
-- KEYS[1] meta HASH, KEYS[2] sessions ZSET, KEYS[3] epochs HASH
-- KEYS[4] semaphore HASH, KEYS[5] its queue ZSET
-- ARGV[1] session: string
-- ARGV[2] epoch: integer > 0
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] limit: integer, permits; stored only if no limit is stored
-- ARGV[5] held: integer, permits
-- ARGV[6] 0: first part of the account, 1: more tickets of the same account
-- ARGV[7] number of tickets: integer; then for each ticket four integers:
--   ticket, weight (permits), place (0: unknown), epoch of its acquire
-- Reply: session (string), epoch, number, status (ok, resync, broken); if ok
--   then permits in use above the limit (0: none), and for each ticket its
--   place (0: Redis never queued it, acquire again): integers
--
-- A ticket keeps its place. A ticket whose place is unknown keeps the one in
-- the queue, under the epoch of its acquire or a later one.
-- Run again it changes nothing. O(k log q), k tickets declared, q queued.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/registry.lua"
-- @include "include/semaphore.lua"

local session = session_name(1)
local epoch, number = integer(2, 1), integer(3)
local limit, held = integer(4), integer(5)
local more, tickets = integer(6), integer(7)
local first = 8
-- older epochs under which a ticket of unknown place is looked up, at most
local EPOCHS_BACK = 16

for i = first, first + 4 * tickets - 1, 4 do
    integer(i, 1)
    integer(i + 1, 1)
    integer(i + 2, -2^53)
    integer(i + 3)
end

local function error_reply(status)
    return { session, epoch, number, status }
end

local function member(i, of_epoch)
    return string.format('%s %d %s %s', session, of_epoch, ARGV[i],
        ARGV[i + 1])
end

-- Place and epoch of a ticket in the queue; place 0: not queued. The session
-- cannot know which of its declares since the acquire were executed.
local function find_place(i, acquired)
    for of_epoch = epoch, math.max(acquired, epoch - EPOCHS_BACK), -1 do
        local place = redis.call('ZSCORE', KEYS[5], member(i, of_epoch))
        if place then return tonumber(place), of_epoch end
    end
    return 0, acquired
end

local current, _, lease = registry_read(KEYS[3], session)
if current ~= epoch then
    return error_reply(STATUS.resync)
end
local view = shard_view(KEYS[1], KEYS[2], KEYS[3], lease)
if not view.gen then
    return error_reply(STATUS.resync)
end
local sem = semaphore_read(KEYS[4], KEYS[5], session, view)
if not sem or not queue_read(sem, view) then
    return error_reply(STATUS.broken)
end
if semaphore_queue_lost(sem, view, session) then
    return error_reply(STATUS.resync)
end

local reply = { session, epoch, number, STATUS.ok, 0 }
local waiting = 0

for i = first, first + 4 * tickets - 1, 4 do
    local of_epoch, place = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 2])
    if place == 0 then
        place, of_epoch = find_place(i, of_epoch)
    end
    if place ~= 0 then
        redis.call('ZREM', KEYS[5], member(i, of_epoch))
        queue_add(sem, member(i, epoch), place)
        waiting = waiting + 1
    end
    reply[#reply + 1] = place
end

local account = more == 1 and account_get(sem, session)
if account and account.epoch == epoch then
    account_add(sem, account, 0, waiting)
else
    account_set(sem, session, epoch, held, waiting)
end
sem.limit = sem.limit or limit
reply[5] = math.max(sem.held - sem.limit, 0)
semaphore_write(sem, view)

return reply
