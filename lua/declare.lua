-- declare: states the account of a session, permits held and tickets waiting,
-- in absolute figures. They replace the account of all older epochs, so late
-- commands of an older connection have no effect any more.
--
-- KEYS[1] shard HASH, KEYS[2] semaphore HASH, KEYS[3] its queue ZSET
-- KEYS[4], its fair ZSET, and KEYS[5], its HASH of dropped tickets: only if
--   tickets of this session may have keys
-- ARGV[1] session: string
-- ARGV[2] epoch: integer > 0
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] limit: integer, permits; stored only if no limit is stored, or with
--   limit=auto while the state recovers, if it is larger
-- ARGV[5] held: integer, permits
-- ARGV[6] flags: sum of 1 (more tickets of the same account; not: its first
--   part), 2 (a pool: two more arguments come before the tickets, ARGV[8] and
--   ARGV[9]: the list of the session, "<id> <server>=<limit> ..." or "-", and
--   what is held at each server, "<server>=<permits> ...", see sync)
-- ARGV[7] number of tickets: integer, 0 to 1000; then for each ticket four
--   integers: ticket, weight (permits), place (0: unknown), epoch of its
--   acquire; given KEYS[4], also "<cost> <key>" as in an acquire of sync, or
--   "-": no key
-- Reply: session (string), epoch, number, status (ok, resync, broken, mixed);
--   if broken then which of KEYS has the wrong type: 2, 3 or 4;
--   if ok then permits in use above the limit, or above that of an order
--   where it is higher (0: none; of a pool above those of the servers of the
--   list), and for each ticket its place (0: Redis never queued it, or has
--   dropped it: acquire again): integers
-- Messages: "reclaimed" as of sync
--
-- A ticket keeps its place. A ticket whose place is unknown, or that has a key,
-- keeps the one in the queue, under the epoch of its acquire or a later one.
-- One that is not there may have been granted, and keeps its place, unless it
-- was dropped: Redis keeps the numbers that replies have named.
-- Tags of keys are restored from the places.
-- Run again it changes nothing. O(k log q), k tickets declared, q queued.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/shard.lua"
-- @include "include/hash.lua"
-- @include "include/pool.lua"
-- @include "include/account.lua"
-- @include "include/pool_rules.lua"
-- @include "include/queue.lua"
-- @include "include/expiry.lua"
-- @include "include/semaphore.lua"
-- @include "include/semaphore_learn.lua"
-- @include "include/view_lose.lua"
-- @include "include/limits_lowest.lua"
-- @include "include/order.lua"
-- @include "include/publish.lua"

local fairs = false
if KEYS[4] then
-- @include "include/fair_trim.lua"
-- @include "include/fair.lua"
end

local session = session_name(1)
local epoch, number = integer(2, 1), integer(3)
local limit, held = integer(4), integer(5)
local more, tickets = integer(6, 0, 3), integer(7, 0, 1000)
local is_pool = more > 1
local list_id, stated, held_at
if is_pool then
    local sum
    list_id, stated = pool_list_argument(8)
    held_at, sum = pool_argument(9)
    if sum ~= held or not stated and list_id ~= pools.no_server then
        error('DSEM argument 9 is not what is held', 0)
    end
end
-- older epochs under which a ticket of unknown place is searched, at most
local EPOCHS_BACK = 16

-- Ticket n of the call.
local function declared_ticket(n)
    local i = (KEYS[4] and 3 + 5 * n or 4 + 4 * n) + (is_pool and 2 or 0)
    local ticket = {
        number = integer(i, 1), weight = integer(i + 1, 1),
        place = integer(i + 2, -2^53), acquired = integer(i + 3)
    }
    if KEYS[4] and ARGV[i + 4] ~= '-' then
        local cost, key = string.match(ARGV[i + 4] or '', '^(%d+) (%S+)$')
        fairs.argument(i + 4, ticket, cost, key)
    end
    return ticket
end

local function member(ticket, of_epoch)
    -- R12: member of the queue
    return string.format('%s %.0f %.0f %.0f%s', session, of_epoch,
        ticket.number, ticket.weight, ticket.key and ' ' .. ticket.key or '')
end

-- Sets place and epoch of a ticket in the queue, if it is there. The session
-- cannot know which of its declares since the acquire were executed.
local function find_place(sem, ticket)
    local members, epochs = {}, {}
    -- acquired by a session of this worker that was removed: gone with it
    if ticket.acquired > epoch then return end
    for of_epoch = epoch, math.max(ticket.acquired, epoch - EPOCHS_BACK), -1 do
        members[#members + 1] = member(ticket, of_epoch)
        epochs[#epochs + 1] = of_epoch
    end
    for i, place in ipairs(queue_scores(sem, members)) do
        if place then
            if place > PARKED / 2 then place = place - PARKED end
            ticket.place, ticket.acquired = place, epochs[i]
            return
        end
    end
end

-- Moves the tickets to this epoch, but for those that were dropped. Returns how
-- many are in the queue. dropped: those that no reply has named; named: those
-- that replies have named, which may be lost, up to an epoch. One that was
-- acquired later was acquired again.
local function declare_tickets(sem, all, dropped, named, named_epoch)
    local waiting = 0
    for _, ticket in ipairs(all) do
        local number = string.format('%.0f', ticket.number)
        if dropped[number] or named[number] and ticket.acquired <= named_epoch
        then
            ticket.place = 0
        elseif ticket.place == 0 or ticket.key then
            -- where its key was charged the session does not know its place
            find_place(sem, ticket)
        end
        if ticket.place ~= 0 then
            sem.removed[#sem.removed + 1] = member(ticket, ticket.acquired)
            -- R7: queue order
            queue_add(sem, member(ticket, epoch), ticket.place)
            sem.seq = math.max(sem.seq, ticket.place % CLASS)
            waiting = waiting + 1
        end
    end
    return waiting
end

-- Restores the tags of the keys, as if the tickets had just been acquired.
-- Where no other ticket waits, or state was lost, V is the lowest tag of all
-- that wait. Returns false if the ZSET has the wrong type.
local function fair_declare(sem, view, account, all, capacity)
    local keyed = {}
    for _, ticket in ipairs(all) do
        if ticket.key and ticket.place ~= 0 then
            ticket.class = queue_class(ticket.place)
            keyed[#keyed + 1] = ticket
        end
    end
    if #keyed == 0 then return true end
    if not fairs.load(sem, view, KEYS[4], keyed) then return false end
    local alone = view.recovering
        or sem.waiting == (account and account.waiting or 0)
    for _, ticket in ipairs(keyed) do
        fairs.restore(sem, ticket, capacity, alone)
    end
    return true
end

-- Whether the tickets of others count, but the queue is gone.
local function lost(sem, view, marker)
    local own = sem.accounts[session]
    return sem.waiting - (own and own.waiting or 0) > 0 and not marker
        and not view.recovering
end

-- Begins the account with what is held; of a pool at each server.
local function declare_held(sem)
    local account = account_begin(sem, session, epoch)
    if not is_pool then
        account_add(sem, account, held, 0)
        return account
    end
    account.list, account.at, sem.pool.cursor = list_id, {}, nil
    for server, n in pairs(held_at) do pool_add(sem, account, server, n) end
    return account
end

-- The limit in force without orders, and the permits above it; of a pool all
-- those of its list. Permits of before a lower order are no overage, nor are
-- those that a higher one allows.
local function declare_limit(sem, ordered)
    local most = math.max(sem.limit or limit, ordered or 0)
    if is_pool then
        return pool_size(sem, pool_list(sem, list_id), { limit = most,
            most = {} })
    end
    return most, math.max(sem.held - most, 0)
end

-- Stores the limit, if none is stored. With limit=auto a session states what
-- its last replies have shown, and others may have had more since: while the
-- state recovers, and nothing is granted, the largest one is stored.
local function store_limit(sem, view, limits)
    if not sem.limit or view.recovering and limits_sign(limits) then
        sem.limit = math.max(sem.limit or 0, limit)
    end
end

local function declare(all)
    -- the name is the rest of the key, after ":s:"
    local name = string.sub(KEYS[2], #KEYS[1] + 4)
    local v = redis.call('HMGET', KEYS[1], '.', session, 'order:' .. name,
        'limit:' .. name)
    local view = view_new(KEYS[1], session, v[1], v[2])
    if not view or view.entry.epoch ~= epoch then return STATUS.resync end
    local values = redis.pcall('HMGET', KEYS[2], '.', session)
    local sem, fault = semaphore_new(KEYS[2], KEYS[3], session, values, view,
        is_pool)
    local marker = sem and queue_scores(sem, { MARKER })
    if not marker then
        -- a queue of another type, which nothing needs: what is held counts
        if not sem then return fault, fault == STATUS.broken and 2 or nil end
        if tickets + sem.waiting > 0 then return STATUS.broken, 3 end
        marker = {}
    end
    semaphore_learn(sem, view)
    if lost(sem, view, marker[1]) then
        view_lose(view)
        return STATUS.resync
    end

    sem.had_queue = marker[1] and true
    local account = sem.accounts[session]
    -- other parts of the account need them, too: they stay until the next sync
    local dropped = dropped_read(account and account.dropped)
    -- a key of another type has none
    local named = KEYS[5] and redis.pcall('HGET', KEYS[5], session)
    local waiting = declare_tickets(sem, all, dropped,
        dropped_read(type(named) == 'string' and named))
    if is_pool then
        pool_state(sem, list_id, stated)
    end
    if not fair_declare(sem, view, account, all, (declare_limit(sem))) then
        return STATUS.broken, 4
    end
    if more % 2 == 0 or not account or account.epoch ~= epoch then
        account = declare_held(sem)
    end
    account_add(sem, account, 0, waiting)
    store_limit(sem, view, v[4])
    if sem.fair then
        fairs.write(sem)
    elseif KEYS[4] and sem.waiting == 0 and sem.fair_text ~= '' then
        -- the tickets of its older epochs were the last ones
        redis.call('UNLINK', KEYS[4])
    end
    if queue_write(sem, view) == STATUS.resync then
        view_lose(view)
        return STATUS.resync
    end
    semaphore_write(sem, view)
    publish_notes({ session = session, epoch = epoch, name = name }, view)

    local places = {}
    for i, ticket in ipairs(all) do places[i] = ticket.place end
    local _, over = declare_limit(sem, (order_parse(v[3])))
    return STATUS.ok, over, unpack(places)
end

local all = {}
for n = 1, tickets do all[n] = declared_ticket(n) end
return { session, epoch, number, declare(all) }
