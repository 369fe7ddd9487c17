-- A full queue: a ticket with a key drops the last one in the order, if its own
-- place is before that. The dropped ticket leaves the queue and the counts; its
-- session is sent a message, and its next sync names it, whatever that is for:
-- the account keeps the numbers until then. Where a session has too many of
-- them nothing is dropped.

-- Dropped tickets of one account that no reply to its session has named yet, at
-- most.
local MOST_UNTOLD = 32

-- The last ticket in the order that is not parked; nil: there is none, with a
-- status if the queue is broken or lost.
local function fair_last(sem)
    local raw = queue_call('ZRANGE', sem.queue,
        string.format('%.0f', PARKED / 2), '-inf', 'BYSCORE', 'REV',
        'LIMIT', 0, 1, 'WITHSCORES')
    if not raw then return nil, STATUS.broken end
    if not raw[1] then return nil, STATUS.resync end
    -- R12: member of the queue
    local session, epoch, number, _, key = string.match(raw[1],
        '^(%S+) (%d+) (%d+) (%d+) ?(%S*)$')
    return session and {
        member = raw[1], place = tonumber(raw[2]), session = session,
        epoch = tonumber(epoch), number = number, key = key
    }
end

-- Writes what has changed of the queue so far.
local function fair_flush(sem, view)
    local status = queue_write(sem, view)
    if status == STATUS.ok and not sem.had_queue then
        redis.call('PEXPIRE', sem.queue, EXPIRE_MS)
    end
    sem.removed, sem.moved, sem.added = {}, {}, {}
    sem.had_queue = true
    return status
end

-- Notes a dropped ticket, for the next sync of its session. Returns false if
-- the account has as many as it may.
local function account_drop(sem, account, number)
    local _, epoch, list = dropped_read(account.dropped)
    if epoch ~= account.epoch then list = '' end
    local _, count = string.gsub(list, ' ', '')
    if count >= MOST_UNTOLD then return false end
    if not account.dropped then sem.untold = sem.untold + 1 end
    account.dropped = string.format(' !%.0f%s %s', account.epoch, list, number)
    return true
end

-- Drops a ticket. Returns false if too many of its session are unnamed.
local function fair_drop(call, sem, view, ticket)
    local account = sem.accounts[ticket.session]
    if account and account.epoch == ticket.epoch then
        if ticket.session == sem.session then
            call.dropped[ticket.number] = true
        elseif account_drop(sem, account, ticket.number) then
            view.dropped[ticket.session] = true
        else
            return false
        end
        account_add(sem, account, 0, -1)
    end
    sem.removed[#sem.removed + 1] = ticket.member
    sem.scores[ticket.member] = false
    if ticket.key ~= '' then
        local class = queue_class(ticket.place)
        fair_return(sem, class, ticket.key, ticket.place - class * CLASS)
    end
    return true
end

-- Makes room for a ticket at this place in a queue of "most" tickets. Returns
-- whether there is room now. A queue that is longer, as other requests may have
-- a longer one, has room for it instead of those that were dropped: none is
-- dropped in vain. Sets call.status if the queue is broken or lost.
-- R9: drop from a full queue
local function fair_make_room(call, sem, view, place, most)
    if most < 1 then return false end
    local before = sem.waiting
    while sem.waiting >= most do
        if view.steps <= 0 then break end
        local status, last = fair_flush(sem, view)
        if status == STATUS.ok then last, status = fair_last(sem) end
        if status then
            call.status = status
            return false
        end
        if not last or last.place <= place then break end
        accounts_load(sem, { last.session })
        view.steps = view.steps - 1
        if not fair_drop(call, sem, view, last) then break end
    end
    return sem.waiting < most or sem.waiting < before
end

fairs.make_room = fair_make_room
