-- sync: all changes of one session to one semaphore in one turn of its event
-- loop, as one atomic step. It checks everything, takes released permits
-- back, removes cancelled tickets, grants free permits to the head of the
-- queue, then grants, queues or rejects new tickets.
--
-- KEYS[1] meta HASH, KEYS[2] sessions ZSET, KEYS[3] epochs HASH
-- KEYS[4] orders HASH, KEYS[5] semaphore HASH, KEYS[6] its queue ZSET
-- ARGV[1] session: string
-- ARGV[2] epoch: integer
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] generation that the session knows: integer
-- ARGV[5] name of the semaphore: string, percent-encoded
-- ARGV[6] limit by the worker's configuration: integer, permits
-- ARGV[7] flags: integer, sum of 1 (an acquire stores the limit, which comes
--   from a variable; not sent by a draining worker, whose configuration is
--   older), 2 (the session keeps permits that become free, for reuse), 4 (the
--   limit is a literal one: the lowest of all live configurations is in force),
--   8 (send a message if another node asks for a lower one)
-- ARGV[8] released: integer, permits
-- ARGV[9] number of cancels, ARGV[10] of acquires, ARGV[11] of checks:
--   integers; then for each of them integers:
--   cancel:  ticket, weight (permits)
--   acquire: ticket, weight, class (-8..7), queue limit (tickets)
--   check:   ticket, weight
-- Reply: session (string), epoch, number, status (ok, resync, broken); if ok
--   then integers: permits in use, limit in force, tickets waiting, ms until
--   recovery ends, permits held and tickets waiting of the account, 1: permits
--   may be kept, 0: all idle permits are wanted back; then for each
--   cancel:  1 removed from the queue, 0 too late
--   acquire: verdict, place, position (1: head; place and position are 0
--            unless queued)
--   check:   1 queued, 0 not in the queue, 2 removed, weight above the limit;
--   and last the other tickets of this session that were granted.
-- Messages: one per session that was granted tickets by this call
--   "grant <name> <epoch> <in use> <limit> <ticket> ..."
--   and one per session that may hold idle permits while tickets wait
--   "recall <name> <epoch>"
--   and one to this session, if flagged and no order is in force
--   "limit <name> <epoch> <limit in force> <node that asks for it>"
--
-- Not idempotent: a session sends it once; after a lost reply it sends hello.
-- O(k log q), k tickets in the call, granted or skipped, q queued; O(a log n)
-- more when it scans or recalls, a accounts of the semaphore, n sessions.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/registry.lua"
-- @include "include/semaphore.lua"
-- @include "include/serve.lua"
-- @include "include/limits_lowest.lua"

-- the verdict on an acquire; ngx_module/ has the same table in C
local VERDICT = { rejected = 0, granted = 1, queued = 2, recovering = 3 }

local meta, registry, epochs = KEYS[1], KEYS[2], KEYS[3]
local session = session_name(1)
local epoch, number, gen = integer(2, 1), integer(3), integer(4)
local name = ARGV[5]
plain_integers(6)
local limit, flags = plain_integer(6, 0), plain_integer(7, 0, 15)
local released = plain_integer(8, 0)
local stores_limit, reuses = flags % 2 == 1, flags % 4 >= 2
local literal, asks_node = flags % 8 >= 4, flags >= 8
local cancels, acquires = plain_integer(9, 0), plain_integer(10, 0)
local checks = plain_integer(11, 0)
local first_cancel = 12
local first_acquire = first_cancel + 2 * cancels
local first_check = first_acquire + 4 * acquires

for i = first_cancel, first_acquire - 1 do plain_integer(i, 1) end
local weights, classes, queue_limits, wanted = {}, {}, {}, 0
for n = 1, acquires do
    local i = first_acquire + 4 * (n - 1)
    plain_integer(i, 1)
    weights[n] = plain_integer(i + 1, 1)
    classes[n] = plain_integer(i + 2, -8, 7)
    queue_limits[n] = plain_integer(i + 3, 0)
    wanted = wanted + weights[n]
end
for i = first_check, first_check + 2 * checks - 1 do plain_integer(i, 1) end

local function error_reply(status)
    return { session, epoch, number, status }
end

local function member(i)
    return session .. ' ' .. ARGV[2] .. ' ' .. ARGV[i] .. ' ' .. ARGV[i + 1]
end

-- all reads and checks come before the first write

local current, _, lease = registry_read(epochs, session)
if current ~= epoch then
    return error_reply(STATUS.resync)
end
local view = shard_view(meta, registry, epochs, lease,
    literal and 'limit:' .. name or nil)
if view.gen ~= gen then
    return error_reply(STATUS.resync)
end
local order = redis.call('HGET', KEYS[4], name)
local sem = semaphore_read(KEYS[5], KEYS[6], session, view)
if not sem then
    return error_reply(STATUS.broken)
end

-- the limit in force: the operator's order, else the lowest of all live
-- configurations, else that of the last acquire

local lowest = limits_lowest(view.field)
local stored_limit = lowest or sem.limit
if not lowest and (not stored_limit or acquires > 0 and stores_limit) then
    stored_limit = limit
end
view.limit = stored_limit
if order then
    local ordered, paused = string.match(order, '^(%S+) (%d)$')
    view.limit = tonumber(ordered) or view.limit
    view.paused = paused == '1'
end

-- the queue is not read where nothing waits and all permits can be granted

if (sem.waiting > 0 or cancels + checks > 0 or view.paused
        or sem.held - released + wanted > view.limit)
    and not queue_read(sem, view)
then
    return error_reply(STATUS.broken)
end

local account = account_get(sem, session)
if not account or account.epoch < epoch then
    account = account_set(sem, session, epoch, 0, 0)
end
if released > account.held or semaphore_queue_lost(sem, view) then
    return error_reply(STATUS.resync)
end
sem.limit = stored_limit

local function grantable(weight)
    return sem.waiting == 0 and not view.paused
        and sem.held + weight <= view.limit
end

-- Verdict and place of one acquire; a queued one may still be granted below.
local function acquire(n)
    local weight = weights[n]
    if view.recovering then
        return VERDICT.recovering, 0
    end
    if weight > view.limit then
        return VERDICT.rejected, 0
    end
    if not grantable(weight) and sem.seen ~= view.ended then
        semaphore_scan(sem, view)
        serve(sem, view)
    end
    if grantable(weight) then
        account_add(sem, account, weight, 0)
        return VERDICT.granted, 0
    end

    local queue_limit = queue_limits[n] + semaphore_slack(sem, account, view)
    local free = not view.paused and sem.held + weight <= view.limit
    if sem.waiting >= queue_limit and not free then
        return VERDICT.rejected, 0
    end
    local key = member(first_acquire + 4 * (n - 1))
    local place = queue_add(sem, key, nil, classes[n])
    account_add(sem, account, 0, 1)
    if sem.waiting > queue_limit then
        -- the queue is full, but perhaps no ticket in it can be served
        serve(sem, view)
        if sem.waiting > queue_limit
            and redis.call('ZREM', KEYS[6], key) == 1
        then
            account_add(sem, account, 0, -1)
            return VERDICT.rejected, 0
        end
    end
    return VERDICT.queued, place
end

-- The state of a ticket that the session counts as waiting.
local function check(i)
    local key = member(i)
    if not redis.call('ZSCORE', KEYS[6], key) then return 0 end
    if tonumber(ARGV[i + 1]) <= view.limit then return 1 end
    redis.call('ZREM', KEYS[6], key)
    account_add(sem, account, 0, -1)
    return 2
end

-- writes begin here

account_add(sem, account, -released, 0)

local reply = { session, epoch, number, STATUS.ok, 0, 0, 0, 0, 0, 0, 0 }
local last = #reply

for i = first_cancel, first_acquire - 1, 2 do
    local removed = redis.call('ZREM', KEYS[6], member(i))
    if removed == 1 then account_add(sem, account, 0, -1) end
    last = last + 1
    reply[last] = removed
end

serve(sem, view)

local verdicts, places, queued = {}, {}, false
for n = 1, acquires do
    verdicts[n], places[n] = acquire(n)
    queued = queued or verdicts[n] == VERDICT.queued
end
-- a new ticket of a better class may be the head now
if queued then serve(sem, view) end

local granted = {}
for _, ticket in ipairs(view.granted[session] or {}) do
    granted[ticket] = true
end
for n = 1, acquires do
    local i = first_acquire + 4 * (n - 1)
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

-- an account without permits has no idle ones
account_set_reuse(sem, account,
    reuses and account.held > 0 and REUSE.active or REUSE.none)
semaphore_recall(sem, view)
semaphore_write(sem, view)

-- pcall: a lost message only delays, the other session checks its tickets
for other, tickets in pairs(view.granted) do
    if other ~= session then
        redis.pcall('PUBLISH', meta .. ':c:' .. other,
            string.format('grant %s %d %d %d %s', name,
                sem.accounts[other].epoch, sem.held, view.limit,
                table.concat(tickets, ' ')))
    end
end

if asks_node and lowest and lowest < limit and view.limit == lowest then
    local node = limits_node(view, view.field, session, number)
    if node then
        redis.pcall('PUBLISH', meta .. ':c:' .. session, string.format(
            'limit %s %d %d %s', name, epoch, lowest, node))
    end
end

for _, other in ipairs(view.recalled) do
    redis.pcall('PUBLISH', meta .. ':c:' .. other, string.format(
        'recall %s %d', name, sem.accounts[other].epoch))
end

reply[5], reply[6], reply[7] = sem.held, view.limit, sem.waiting
reply[8] = view.recovery
reply[9], reply[10] = account.held, account.waiting
reply[11] = (sem.waiting > 0 or view.paused or view.recovering
    or sem.held > view.limit) and 0 or 1
return reply
