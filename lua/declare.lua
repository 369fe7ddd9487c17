-- declare: what a session has of one semaphore, in absolute figures. It
-- stands in the place of whatever its older epochs had; late commands of
-- the old connection do nothing any more.
--
-- KEYS[1] meta HASH, KEYS[2] sessions ZSET, KEYS[3] epochs HASH
-- KEYS[4] semaphore HASH, KEYS[5] its queue ZSET
-- ARGV[1] session, ARGV[2] epoch, ARGV[3] number of the command
-- ARGV[4] limit, stored only where none is
-- ARGV[5] weight held
-- ARGV[6] 0: this is all that the account had until now, 1: more tickets
-- ARGV[7] tickets; then for each
--   ticket, weight, place (0: unknown), epoch under which it was asked for
-- Reply: session, epoch, number, status (ok, resync, broken); if ok then
--   by how much the limit is exceeded now (0: it is not), and
--   for each ticket its place; 0: it never had one, ask again
--
-- A ticket keeps its place; one whose place is unknown keeps the one that
-- the queue has for it, under the epoch of the ask or a later one. Run again
-- it changes nothing.

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
-- through how many epochs a place is looked for
local EPOCHS_BACK = 16

for i = first, first + 4 * tickets - 1, 4 do
    integer(i, 1)
    integer(i + 1, 1)
    integer(i + 2, -2^53)
    integer(i + 3)
end

local function answer(status)
    return { session, epoch, number, status }
end

local function member(i, of_epoch)
    return string.format('%s %d %s %s', session, of_epoch, ARGV[i],
        ARGV[i + 1])
end

-- The place that the queue has for a ticket, and the epoch; 0: none. Which of
-- the declares since the ask have been executed the session cannot know.
local function place_of(i, asked)
    for of_epoch = epoch, math.max(asked, epoch - EPOCHS_BACK), -1 do
        local place = redis.call('ZSCORE', KEYS[5], member(i, of_epoch))
        if place then return tonumber(place), of_epoch end
    end
    return 0, asked
end

local current, _, lease = registry_read(KEYS[3], session)
if current ~= epoch then
    return answer(STATUS.resync)
end
local view = shard_view(KEYS[1], KEYS[2], KEYS[3], lease)
if not view.gen then
    return answer(STATUS.resync)
end
local sem = semaphore_read(KEYS[4], KEYS[5], session, view)
if not sem or not queue_read(sem, view) then
    return answer(STATUS.broken)
end
if semaphore_queue_lost(sem, view, session) then
    return answer(STATUS.resync)
end

local reply = { session, epoch, number, STATUS.ok, 0 }
local waiting = 0

for i = first, first + 4 * tickets - 1, 4 do
    local asked, place = tonumber(ARGV[i + 3]), tonumber(ARGV[i + 2])
    if place == 0 then
        place, asked = place_of(i, asked)
    end
    if place ~= 0 then
        redis.call('ZREM', KEYS[5], member(i, asked))
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
