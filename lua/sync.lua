-- sync: all that one session wants from one semaphore in one turn of its
-- event loop, in one atomic step: check everything; give back; take tickets
-- out; hand free permits to the head; grant, queue or refuse what is asked.
--
-- KEYS[1] meta HASH, KEYS[2] sessions ZSET, KEYS[3] epochs HASH
-- KEYS[4] orders HASH, KEYS[5] semaphore HASH, KEYS[6] its queue ZSET
-- ARGV[1] session, ARGV[2] epoch, ARGV[3] number of the command
-- ARGV[4] generation that the session knows
-- ARGV[5] name of the semaphore, encoded
-- ARGV[6] limit as the session is configured
-- ARGV[7] sum of 1: an ask sets the stored limit (not a draining worker's)
--   and 2: the session keeps permits that come free, to use them again
-- ARGV[8] weight given back
-- ARGV[9] cancels, ARGV[10] asks, ARGV[11] checks; then for each
--   cancel: ticket, weight
--   ask:    ticket, weight, class (-8..7), queue (how many may wait)
--   check:  ticket, weight
-- Reply: session, epoch, number, status (ok, resync, broken); if ok then
--   permits in use, limit in force, tickets waiting, ms until recovery ends,
--   the account's held and waiting, 1 when permits may be kept and 0 when
--   all that are idle are wanted back; then for each
--   cancel: 1 out of the queue, 0 too late
--   ask:    verdict, place, position (1 = head; both 0 unless queued)
--   check:  1 in the queue, 0 not there, 2 taken out: heavier than the limit
--   and last the other tickets of this session that were granted.
-- Tickets granted to other sessions are published, one message a session:
--   "grant <name> <epoch> <in use> <limit> <ticket> ..."
-- Sessions that may have idle permits while somebody waits are told
--   "recall <name> <epoch>"
--
-- Not idempotent: a session sends it once, and says hello when in doubt.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/registry.lua"
-- @include "include/semaphore.lua"
-- @include "include/serve.lua"

local VERDICT = { refused = 0, granted = 1, queued = 2, recovering = 3 }

local meta, registry, epochs = KEYS[1], KEYS[2], KEYS[3]
local session = session_name(1)
local epoch, number, gen = integer(2, 1), integer(3), integer(4)
local name = ARGV[5]
plain_integers(6)
local limit, may = plain_integer(6, 0), plain_integer(7, 0, 3)
local release = plain_integer(8, 0)
local may_set, keeps = may % 2 == 1, may >= 2
local cancels, asks = plain_integer(9, 0), plain_integer(10, 0)
local checks = plain_integer(11, 0)
local first_cancel = 12
local first_ask = first_cancel + 2 * cancels
local first_check = first_ask + 4 * asks

for i = first_cancel, first_ask - 1 do plain_integer(i, 1) end
local weights, classes, queues, wanted = {}, {}, {}, 0
for n = 1, asks do
    local i = first_ask + 4 * (n - 1)
    plain_integer(i, 1)
    weights[n] = plain_integer(i + 1, 1)
    classes[n] = plain_integer(i + 2, -8, 7)
    queues[n] = plain_integer(i + 3, 0)
    wanted = wanted + weights[n]
end
for i = first_check, first_check + 2 * checks - 1 do plain_integer(i, 1) end

local function answer(status)
    return { session, epoch, number, status }
end

local function member(i)
    return session .. ' ' .. ARGV[2] .. ' ' .. ARGV[i] .. ' ' .. ARGV[i + 1]
end

-- everything is read before anything is written

local current, _, lease = registry_read(epochs, session)
if current ~= epoch then
    return answer(STATUS.resync)
end
local view = shard_view(meta, registry, epochs, lease)
if view.gen ~= gen then
    return answer(STATUS.resync)
end
local order = redis.call('HGET', KEYS[4], name)
local sem = semaphore_read(KEYS[5], KEYS[6], session, view)
if not sem then
    return answer(STATUS.broken)
end

-- the limit in force: the operator's order, else the last ask's

local stored = sem.limit
if not stored or (asks > 0 and may_set) then
    stored = limit
end
view.limit = stored
if order then
    local ordered, paused = string.match(order, '^(%S+) (%d)$')
    view.limit = tonumber(ordered) or view.limit
    view.paused = paused == '1'
end

-- where nobody waits and all is to be had, the queue need not be looked at

if (sem.waiting > 0 or cancels + checks > 0 or view.paused
        or sem.held - release + wanted > view.limit)
    and not queue_read(sem, view)
then
    return answer(STATUS.broken)
end

local mine = account_get(sem, session)
if not mine or mine.epoch < epoch then
    mine = account_set(sem, session, epoch, 0, 0)
end
if release > mine.held or semaphore_queue_lost(sem, view) then
    return answer(STATUS.resync)
end
sem.limit = stored

local function grantable(weight)
    return sem.waiting == 0 and not view.paused
        and sem.held + weight <= view.limit
end

-- Verdict and place of one ask; a queued one may still be granted below.
local function ask(n)
    local weight = weights[n]
    if view.recovering then
        return VERDICT.recovering, 0
    end
    if weight > view.limit then
        return VERDICT.refused, 0
    end
    if not grantable(weight) and sem.seen ~= view.ended then
        semaphore_scan(sem, view)
        serve(sem, view)
    end
    if grantable(weight) then
        account_add(sem, mine, weight, 0)
        return VERDICT.granted, 0
    end

    local queue = queues[n] + semaphore_slack(sem, mine, view)
    local free = not view.paused and sem.held + weight <= view.limit
    if sem.waiting >= queue and not free then
        return VERDICT.refused, 0
    end
    local key = member(first_ask + 4 * (n - 1))
    local place = queue_add(sem, key, nil, classes[n])
    account_add(sem, mine, 0, 1)
    if sem.waiting > queue then
        -- no place, but perhaps nobody before it can take the permits
        serve(sem, view)
        if sem.waiting > queue and redis.call('ZREM', KEYS[6], key) == 1 then
            account_add(sem, mine, 0, -1)
            return VERDICT.refused, 0
        end
    end
    return VERDICT.queued, place
end

-- What became of a ticket that the session believes to be waiting.
local function check(i)
    local key = member(i)
    if not redis.call('ZSCORE', KEYS[6], key) then return 0 end
    if tonumber(ARGV[i + 1]) <= view.limit then return 1 end
    redis.call('ZREM', KEYS[6], key)
    account_add(sem, mine, 0, -1)
    return 2
end

-- from here on it writes

account_add(sem, mine, -release, 0)

local reply = { session, epoch, number, STATUS.ok, 0, 0, 0, 0, 0, 0, 0 }
local last = #reply

for i = first_cancel, first_ask - 1, 2 do
    local removed = redis.call('ZREM', KEYS[6], member(i))
    if removed == 1 then account_add(sem, mine, 0, -1) end
    last = last + 1
    reply[last] = removed
end

serve(sem, view)

local verdicts, places, queued = {}, {}, false
for n = 1, asks do
    verdicts[n], places[n] = ask(n)
    queued = queued or verdicts[n] == VERDICT.queued
end
-- one of a better class may be the head now
if queued then serve(sem, view) end

local granted = {}
for _, ticket in ipairs(view.granted[session] or {}) do
    granted[ticket] = true
end
for n = 1, asks do
    local i = first_ask + 4 * (n - 1)
    local verdict, place, position = verdicts[n], places[n], 0
    if granted[ARGV[i]] then
        verdict, place = VERDICT.granted, 0
        granted[ARGV[i]] = nil
    elseif verdict == VERDICT.queued then
        position = redis.call('ZRANK', KEYS[6], member(i))
    end
    reply[last + 1], reply[last + 2], reply[last + 3] =
        verdict, place, position
    last = last + 3
end

for i = first_check, first_check + 2 * checks - 1, 2 do
    last = last + 1
    reply[last] = check(i)
end
for _, ticket in ipairs(view.granted[session] or {}) do
    if granted[ticket] then
        last = last + 1
        reply[last] = tonumber(ticket)
    end
end

-- who has nothing has nothing idle
account_keep(sem, mine, keeps and mine.held > 0 and 1 or 0)
semaphore_recall(sem, view)
semaphore_write(sem, view)

-- a hint: where it cannot be given, the other finds out when it asks
for other, tickets in pairs(view.granted) do
    if other ~= session then
        redis.pcall('PUBLISH', meta .. ':c:' .. other,
            string.format('grant %s %d %d %d %s', name,
                sem.accounts[other].epoch, sem.held, view.limit,
                table.concat(tickets, ' ')))
    end
end

for _, other in ipairs(view.recalled) do
    redis.pcall('PUBLISH', meta .. ':c:' .. other, string.format(
        'recall %s %d', name, sem.accounts[other].epoch))
end

reply[5], reply[6], reply[7] = sem.held, view.limit, sem.waiting
reply[8] = view.recovery
reply[9], reply[10] = mine.held, mine.waiting
reply[11] = (sem.waiting > 0 or view.paused or view.recovering
    or sem.held > view.limit) and 0 or 1
return reply
