-- sync: all changes of one session to one semaphore in one turn of its event
-- loop, as one atomic step. It checks everything, takes released permits
-- back, removes cancelled tickets, grants free permits to the head of the
-- queue, then grants, queues or rejects new tickets.
--
-- KEYS[1] shard HASH, KEYS[2] semaphore HASH, KEYS[3] its queue ZSET
-- KEYS[4], its fair ZSET, and KEYS[5], its HASH of dropped tickets: only if
--   tickets of this session may have keys
-- ARGV[1] session: string
-- ARGV[2] nine integers: epoch; number of the command, echoed; generation that
--   the session knows; limit by the worker's configuration, permits; flags;
--   released, permits; number of cancels, of acquires, of checks, 1000 in all.
--   flags: sum of 1 (an acquire stores the limit, which comes from a variable;
--   not sent by a draining worker, whose configuration is older), 2 (the
--   session keeps permits that become free, for reuse), 4 (the limit is a
--   literal one: the lowest of all live configurations is in force), 8 (send a
--   message if another node asks for a lower one)
-- ARGV[3] name of the semaphore: string, percent-encoded
-- ARGV[4] and so on, a string of integers for each
--   cancel:  ticket, weight (permits)
--   acquire: ticket, weight, class (-8..7), queue limit (tickets)
--   check:   ticket, weight
--   and for a ticket with a key two more words each: cost (1 to 10^18), and the
--   key, percent-encoded. Cost: us of permit time that the request is expected
--   to take, divided by the shares of its key. The key of a ticket never
--   changes. Between the two a cancel and a check have the limit in force when
--   the ticket was queued, as replied then; 0: unknown. An acquire of ticket 0
--   is a charge instead: its key pays the cost, and its waiting tickets go
--   behind by that. Its verdict is 0, it is executed before the others, and
--   stores no limit
-- of a pool (flags: 16 more) those begin two later, see include/pool.lua:
--   ARGV[4] the list of servers that the session can use: "<id>", or where
--   Redis may not know it "<id> <server>=<limit> ...", id: 1 to 32 hex digits,
--   64 servers at most; "-": it can use none
--   ARGV[5] what is released: "<server>=<permits> ...", the sum is in ARGV[2]
-- Reply: session (string), epoch, number, status (ok, resync, broken, mixed; of
--   a pool also unlisted: the list is unknown, nothing was executed); if broken
--   then which of KEYS has the wrong type: 2, 3 or 4; if ok then integers:
--   permits in use, limit in force, tickets waiting, ms until
--   recovery ends, permits held and tickets waiting of the account, 1: permits
--   may be kept, 0: all idle permits are wanted back, -1: so are those that
--   come free, as it is paused, 1: call again at once, 0: no work was left; of
--   a pool also the limit in force of each server, and permits above the limits
--   of the servers of the list, and of those where the account has permits;
--   then for each
--   cancel:  1 removed from the queue, 0 too late
--   acquire: verdict, place, position (1: head; place and position are 0
--            unless queued)
--   check:   1 queued, 0 not in the queue, 2 removed, weight above the limit,
--            or dropped;
--   of a pool a granted acquire has for its place the number of its server in
--   the list of this call; the limit in force is the sum of those of the list;
--   and where there are checks the permits of the account at each server of the
--   list follow here;
--   and last the other tickets of this session that were granted, and, as
--   negative numbers, those that were dropped from a full queue since its last
--   sync, or by this one. Of a pool each that was granted is followed by the
--   number of its server
-- Messages: one per session that was granted tickets by this call
--   "grant <name> <epoch> <in use> <limit> <ticket> ..."
--   of a pool with "<ticket>@<server>"
--   and one per session that may hold idle permits while tickets wait
--   "recall <name> <epoch>"
--   also where the limit in force is below the permits held, or the semaphore
--   is paused; and to this session, if flagged and its limit is not in force
--   "limit <name> <epoch> <limit in force> <node that asks for it>"
--   or without a node, if an order is in force
--   to a session with tickets that were dropped: the next sync replies them
--   "drop <name> <epoch>"
--   if permits of sessions that have ended were taken back
--   "reclaimed <name> <epoch> <permits>"
--   if an order is malformed, and therefore ignored
--   "order <name> <epoch> <the order, 64 bytes of it at most>"
--
-- Not idempotent: a session sends it once; after a lost reply it sends hello.
-- O(k log q), k tickets in the call, q queued; of others it reads 64
-- tickets, accounts or ended sessions at most, whatever there are.

-- @include "include/expiry.lua"
-- @include "include/quiet.lua"

local call_epoch, call_number, call_gen, call_limit, call_flags, call_released,
    call_acquires = string.match(ARGV[2] or '',
        '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) 0 (%d+) 0$')
call_flags, call_released, call_acquires = tonumber(call_flags),
    tonumber(call_released), tonumber(call_acquires)

-- head, entry of the session, order, and where the limit is a literal one the
-- limits of the name
local shard_values
if call_flags and call_flags % 8 < 4 then
    shard_values = redis.call('HMGET', KEYS[1], '.', ARGV[1],
        'order:' .. ARGV[3])
else
    shard_values = redis.call('HMGET', KEYS[1], '.', ARGV[1] or '',
        'order:' .. (ARGV[3] or ''), 'limit:' .. (ARGV[3] or ''))
end
-- head and account of the session; of a pool its list
local semaphore_values
if call_flags and call_flags > 15 then
    semaphore_values = redis.pcall('HMGET', KEYS[2], '.', ARGV[1],
        'list:' .. string.match(ARGV[4] or '', '^%x*'))
else
    semaphore_values = redis.pcall('HMGET', KEYS[2], '.', ARGV[1] or '')
end

-- what the usual paths need, see quiet.lua; usual_weight: they may take it
local shard_ended, shard_clock, usual_weight, usual_limit
local ask_ticket, ask_weight, ask_class, ask_queue_limit, ask_cost, ask_key
if call_epoch and not semaphore_values.err then
    shard_ended, shard_clock = usual_shard(shard_values, call_gen, call_epoch)
    if shard_ended then
        usual_weight, usual_limit, ask_ticket, ask_weight, ask_class,
            ask_queue_limit, ask_cost, ask_key = usual_changes(
            call_acquires, call_limit, call_flags, call_released,
            shard_values[3], shard_values[4], KEYS[4])
    end
end
if usual_weight and call_flags < 16 then
    local reply = quiet_sync(shard_values, semaphore_values, shard_ended,
        shard_clock, call_epoch, call_number, call_acquires, call_limit,
        call_flags, call_released, usual_weight, usual_limit)
    if reply then return reply end
end

-- each function that is defined costs the call, and more where it uses others:
-- those of one path are defined where it is taken
if usual_weight and call_flags > 15 then
-- @include "include/quiet_pool.lua"
    local reply = call_acquires + call_released <= QUIET_PERMITS
        and quiet_pool_sync(semaphore_values, shard_ended, shard_clock,
            call_epoch, call_number, call_acquires, call_flags, call_released,
            usual_weight, usual_limit)
    if reply then return reply end
    usual_weight = nil
end

-- @include "include/fair_trim.lua"

if usual_weight and call_acquires <= 1 then
-- @include "include/contended.lua"
    local reply
    if not KEYS[4] then
-- @include "include/contended_plain.lua"
        reply = contended_sync()
    else
-- @include "include/contended_fair.lua"
        reply = keyed_sync(semaphore_values, shard_ended, shard_clock,
            call_epoch, call_acquires, call_flags, call_released, usual_weight,
            usual_limit, ask_ticket, ask_weight, ask_class, ask_queue_limit,
            ask_cost, ask_key)
    end
    if reply then return reply end
end

-- @include "include/status.lua"
-- @include "include/argument_names.lua"
-- @include "include/integers.lua"

local HEAD = '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$'
local figures = integers(2, HEAD)
local is_pool = figures[5] > 15

-- @include "include/clock.lua"
-- @include "include/shard.lua"
-- @include "include/hash.lua"
-- @include "include/pool.lua"
-- @include "include/account.lua"

if is_pool then
-- @include "include/pool_rules.lua"
-- @include "include/pool_sync.lua"
end

-- @include "include/queue.lua"
-- @include "include/first.lua"
-- @include "include/ended.lua"
-- @include "include/semaphore.lua"
-- @include "include/recall.lua"
-- @include "include/limits_lowest.lua"
-- @include "include/order.lua"

local fairs = false
if KEYS[4] then
-- @include "include/fair.lua"
-- @include "include/fair_drop.lua"

-- Reads the tags of the tickets that are cancelled, acquired, or rejected by a
-- check.
function fairs.look_up(call, sem, view)
    local tickets = { unpack(call.acquires) }
    for _, list in ipairs({ call.cancels, call.checks }) do
        for _, ticket in ipairs(list) do
            local place = ticket.key and sem.scores[ticket.member]
            if place
                and (list == call.cancels or ticket.weight > view.limit)
            then
                ticket.class = queue_class(fairs.place(place))
                tickets[#tickets + 1] = ticket
            end
        end
    end
    return fairs.load(sem, view, KEYS[4], tickets) and STATUS.ok
        or STATUS.broken
end
end

-- cancels, acquires and checks together
local TICKETS = 1000

-- the verdict on an acquire; ngx_module/ has the same table in C
-- R15: codes in replies
local VERDICT = { rejected = 0, granted = 1, queued = 2, recovering = 3 }

local TICKET = '^(%d+) (%d+)$'
local ACQUIRE = '^(%d+) (%d+) (%-?%d) (%d+)$'
-- with a key
local FAIR_TICKET = '^(%d+ %d+) (%d+) (%d+) (%S+)$'
local FAIR_ACQUIRE = '^(%d+ %d+ %-?%d %d+) (%d+) (%S+)$'

-- Tickets of the call from ARGV[first] on, with the values of each.
local function read_tickets(call, first, count, pattern, fair_pattern)
    local list = {}
    for n = 1, count do
        local i = first + n - 1
        local values, cost, limit, key
        if KEYS[4] then
            values, cost, limit, key = string.match(ARGV[i] or '', fair_pattern)
            -- that of an acquire is the one in force
            if not key then limit, key = nil, limit end
        end
        local ticket = integers(i, pattern, values)
        if key then fairs.argument(i, ticket, cost, key, limit) end
        ticket.weight, ticket.class = ticket[2], ticket[3] or 0
        if ticket[1] < 1 and not (ticket[4] and key) or ticket.weight < 1
            or ticket.class < -8 or ticket.class > 7
            or is_pool and ticket.weight > 1
        then
            error('DSEM argument ' .. i .. ' is not a ticket in range', 0)
        end
        ticket.number = string.format('%.0f', ticket[1])
        -- R12: member of the queue
        ticket.member = string.format('%s %.0f %s %.0f', call.session,
            call.epoch, ticket.number, ticket.weight)
        if key then ticket.member = ticket.member .. ' ' .. key end
        list[n] = ticket
    end
    return list
end

-- Takes a ticket out of the queue that the account counts.
local function take_out(sem, view, account, ticket)
    local member, score = ticket.member, sem.scores[ticket.member]
    sem.removed[#sem.removed + 1] = member
    if score > PARKED / 2 then account_park(sem, account, -1) end
    sem.scores[member] = false
    account_add(sem, account, 0, -1)
    if ticket.key then
        fairs.refund(sem, ticket, fairs.place(score), view.capacity)
    end
end

-- The place of a new ticket. With a key it may be one before tickets of its
-- class, but never before those of its key.
local function next_place(sem, ask)
    if ask.key then
        return ask.class * CLASS + fairs.tag(sem, ask.class, ask.key)
    end
    return queue_next_place(sem, ask.class)
end

-- Verdict, place and position of one acquire. first: class of the first ticket
-- that waits. No ticket of an equal or better class is passed. Position nil:
-- it is counted when the ticket is in the queue.
local function acquire(call, sem, view, account, ask, first)
    if ask[1] == 0 then return VERDICT.rejected, 0, 0 end
    if view.recovering then return VERDICT.recovering, 0, 0 end
    if ask.weight > view.limit then return VERDICT.rejected, 0, 0 end
    if is_pool then
        local number = pools.acquire(call, sem, view, account, ask,
            first == FIRST_NONE)
        if number and ask.key and sem.waiting > sem.parked then
            fairs.pass(sem, ask, view.capacity)
        end
        if number then return VERDICT.granted, number, 0 end
    end
    -- R1: room for a permit
    local free = not is_pool and not view.paused
        and sem.held + ask.weight <= view.limit
    -- its credit may bring it before a heavy one at the head
    if ask.key and not (free and ask.class < first) then
        fairs.settle(sem, ask, view.capacity)
    end
    -- of equal places any may be the first one: it is the one that has its
    -- permits
    -- R7: queue order
    if free and (ask.class < first or ask.key and ask.class == first
        and view.first_place and next_place(sem, ask) <= view.first_place)
    then
        account_add(sem, account, ask.weight, 0)
        if ask.class == first then fairs.pass(sem, ask, view.limit) end
        return VERDICT.granted, 0, 0
    end
    -- R2: full queue
    local most = ask[4] + semaphore_slack(sem, account, view)
    if sem.waiting >= most and not (ask.key
        and fairs.make_room(call, sem, view, next_place(sem, ask), most))
    then
        return VERDICT.rejected, 0, 0
    end
    local place = next_place(sem, ask)
    local position = place > sem.tail and sem.waiting - sem.parked + 1 or nil
    if ask.key then
        fairs.charge(sem, ask, place - ask.class * CLASS, view.capacity)
    end
    queue_add(sem, ask.member, place)
    if is_pool then pools.queued(call, sem, view, place) end
    account_add(sem, account, 0, 1)
    call.extra = (call.extra or 0) + ask.weight - 1
    return VERDICT.queued, place, position
end

-- the arguments; an error names what is wrong
local call = {
    session = session_name(1), epoch = figures[1], number = figures[2],
    gen = figures[3], limit = figures[4], flags = figures[5] % 16,
    released = figures[6], name = ARGV[3]
}
-- tickets of more could not all be written by one command
if call.epoch < 1 or figures[5] > 31
    or figures[7] + figures[8] + figures[9] > TICKETS
then
    error('DSEM argument 2 is not in range', 0)
end
if is_pool then
    call.list, call.stated, call.freed = pools.begin(call.released)
end
local index = is_pool and 6 or 4
call.cancels = read_tickets(call, index, figures[7], TICKET, FAIR_TICKET)
index = index + figures[7]
call.acquires = read_tickets(call, index, figures[8], ACQUIRE, FAIR_ACQUIRE)
index = index + figures[8]
call.checks = read_tickets(call, index, figures[9], TICKET, FAIR_TICKET)

-- the reply of a call that is not executed
local failed = { call.session, call.epoch, call.number, STATUS.resync }

local view = view_new(KEYS[1], call.session, shard_values[1], shard_values[2])
if not view or view.entry.epoch ~= call.epoch or view.gen ~= call.gen then
    return failed
end
local sem, fault = semaphore_new(KEYS[2], KEYS[3], call.session,
    semaphore_values, view, is_pool)
if not sem then
    failed[4], failed[5] = fault, fault == STATUS.broken and 2 or nil
    return failed
end
-- accounts of sessions that have ended since, and then dead tickets
local sweeps = sem.seen ~= view.ended
if sweeps then
-- @include "include/semaphore_ended.lua"
    semaphore_drop_ended(sem, view)
end
local account = sem.accounts[call.session]
if not account or account.epoch < call.epoch then
    account = account_begin(sem, call.session, call.epoch)
end
if call.released > account.held then return failed end
if is_pool then
    failed[4] = pools.take(call, sem, view, account)
    if failed[4] ~= STATUS.ok then return failed end
end

-- The limit in force: the operator's order, else the lowest of all live
-- configurations, else that of the last acquire. sem.limit is the limit
-- without orders. A charge is no request: its session may have had none since
-- the limit was another one.
for _, ask in ipairs(call.acquires) do
    call.asks = call.asks or ask[1] > 0
end
-- R16: limit in force
view.lowest = call.flags % 8 >= 4 and limits_lowest(shard_values[4])
if view.lowest then
    -- of limit=auto the largest one that was declared, see declare.lua
    if not (view.recovering and sem.limit and limits_sign(shard_values[4]))
    then
        sem.limit = view.lowest
    end
elseif not sem.limit or call.asks and call.flags % 2 == 1 then
    sem.limit = call.limit
end
view.limit = view.lowest or sem.limit
order_apply(view, shard_values[3])
if is_pool then pools.limits(call, sem, view, account) end

-- the tickets that are cancelled or checked: their places; without its marker
-- a queue that others wait in was lost
-- wrong: which of KEYS, if one has the wrong type
local status, wrong = STATUS.ok, 3
if #call.cancels + #call.checks > 0 then
    local members = { MARKER }
    for _, list in ipairs({ call.cancels, call.checks }) do
        for _, ticket in ipairs(list) do
            members[#members + 1] = ticket.member
        end
    end
    local scores = queue_scores(sem, members)
    if not scores then
        status = STATUS.broken
    elseif not scores[1] and sem.waiting > 0 and not view.recovering then
        status = STATUS.resync
    else
        for i, member in ipairs(members) do sem.scores[member] = scores[i] end
    end
end
if KEYS[4] and status == STATUS.ok then
    status = fairs.look_up(call, sem, view)
    if status ~= STATUS.ok then wrong = 4 end
end

-- in memory: dropped tickets that no reply has named, what the session gives
-- back, and what it does not want any more
local results = {}
if status == STATUS.ok then
    call.dropped = account_dropped(sem, account, call.epoch)
    if account.chunks > 0 or account.parked > 0 then
-- @include "include/queue_restore.lua"
        queue_restore(sem, view, account)
    end
    if not is_pool then account_add(sem, account, -call.released, 0) end
    for _, ticket in ipairs(call.cancels) do
        local there = sem.scores[ticket.member]
        if there then take_out(sem, view, account, ticket) end
        results[#results + 1] = (there or call.dropped[ticket.number]) and 1
            or 0
    end
end

-- the queue is served before the acquires; first: the class of the first ticket
-- that waits
local first = FIRST_NONE
if status == STATUS.ok and (sem.had_queue or sem.waiting ~= sem.parked) then
-- @include "include/serve.lua"
    if sweeps or #call.cancels > 0 then
-- @include "include/dead.lua"
        dead_sweep(sem, view)
    end
    for _, ask in ipairs(call.acquires) do
        -- not while some tickets are not declared: those would pass the others
        if ask[1] == 0 and not view.recovering then
            fairs.owe(sem, ask, view.capacity)
        end
    end
    first, status = serve(sem, view)
    status = status or STATUS.ok
    if sem.fair and first then fairs.served(sem, view.served) end
end

-- the rest of the call in memory, then the queue
if status == STATUS.ok then
    for _, ask in ipairs(call.acquires) do
        ask.verdict, ask.place, ask.position =
            acquire(call, sem, view, account, ask, first)
        if ask.verdict == VERDICT.queued then
            if ask.class < first then
                view.first_place = nil
            elseif ask.class == first and view.first_place then
                view.first_place = math.min(view.first_place, ask.place)
            end
            first = math.min(first, ask.class)
        end
        results[#results + 1] = ask.verdict
        results[#results + 1] = ask.place
        results[#results + 1] = ask.position or 0
    end
    -- tickets that the session counts as waiting
    for _, ticket in ipairs(call.checks) do
        local state = 1
        if call.dropped[ticket.number] then
            state = 2
        elseif not sem.scores[ticket.member] then
            state = 0
        elseif ticket.weight > view.limit then
            take_out(sem, view, account, ticket)
            state = 2
        else
            call.extra = (call.extra or 0) + ticket.weight - 1
        end
        results[#results + 1] = state
    end
    if is_pool and #call.checks > 0 then
        pools.counts(call, sem, account, results)
    end
    for _, number in ipairs(view.granted[call.session] or {}) do
        results[#results + 1] = tonumber(number)
    end
    for number in pairs(call.dropped) do
        results[#results + 1] = -number
    end
    status = call.status or queue_write(sem, view)
end

if status ~= STATUS.ok then
    if status == STATUS.resync then
-- @include "include/view_lose.lua"
        view_lose(view)
    end
    failed[4], failed[5] = status, status == STATUS.broken and wrong or nil
    return failed
end

-- positions of tickets of a better class than others, now that they are queued
for n, ask in ipairs(call.acquires) do
    if not ask.position then
        -- none: dropped by a later one
        results[#call.cancels + 3 * n] = redis.call('ZRANK', sem.queue,
            ask.member) or 0
    end
end
if sem.fair then fairs.write(sem) end
if KEYS[5] and next(call.dropped) then
-- @include "include/leases.lua"
-- @include "include/fair_named.lua"
end
-- an account without permits has no idle ones
local keeps = call.flags % 4 >= 2
local none = account.reuse == REUSE.recalled and not keeps
    and call.released == 0
account_set_reuse(sem, account, keeps and account.held > 0 and REUSE.active
    or REUSE.none)
local waiting = sem.waiting - sem.parked
local recalled = recall(sem, view, waiting + (call.extra or 0),
    #call.checks > 0, none)
semaphore_write(sem, view)

-- an order is in force, or another node asks for a lower limit
local lower = call.flags >= 8 and view.lowest and view.limit ~= call.limit
if lower or next(view.granted) or next(view.dropped) or recalled[1]
    or view.reclaimed > 0 or view.malformed
then
-- @include "include/publish.lua"
    publish_changes(call, sem, view, recalled)
    local node = ''
    if lower and view.limit == view.lowest then
-- @include "include/limits_node.lua"
        node = limits_node(view.key, shard_values[4], call.session)
        node = node and ' ' .. node
    end
    if lower and node then
        publish(view, call.session, string.format('limit %s %d %d%s',
            call.name, call.epoch, view.limit, node))
    end
    publish_notes(call, view)
end

if is_pool then
    table.insert(results, 1, view.over)
    table.insert(results, 1, view.limit)
end
local keep = waiting == 0 and not view.recovering
    and (view.over or sem.held - view.limit) <= 0
return { call.session, call.epoch, call.number, STATUS.ok, sem.held,
    view.capacity, sem.waiting, view.recovery, account.held, account.waiting,
    view.paused and -1 or keep and 1 or 0, view.more and 1 or 0,
    unpack(results) }
