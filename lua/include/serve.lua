-- Grants free permits to the tickets at the head of the queue, in order. A
-- lighter ticket never overtakes a heavier one before it.

-- @include "include/first.lua"

-- Members and scores of the queue as tickets in order, with their sessions.
local function serve_tickets(sem, view, raw)
    local page, sessions = { size = #raw / 2 }, {}
    for i = 1, #raw, 2 do
        -- R12: member of the queue
        local session, text, epoch, number, weight = string.match(raw[i],
            '^(%S+) ((%d+) (%d+) (%d+) ?%S*)$')
        page[#page + 1] = {
            member = raw[i], place = tonumber(raw[i + 1]), session = session,
            text = text, epoch = tonumber(epoch), number = number,
            weight = tonumber(weight)
        }
        sessions[#sessions + 1] = session
    end
    view_load(view, sessions)
    accounts_load(sem, sessions)
    return page
end

-- A page of the queue. nil and a status if the queue is broken or lost. behind:
-- a place behind which it is, nil: none.
local function serve_page(sem, view, from, size, behind)
    local raw
    if behind then
        raw = queue_call('ZRANGE', sem.queue, string.format('(%.0f', behind),
            '+inf', 'BYSCORE', 'LIMIT', from, size, 'WITHSCORES')
    else
        raw = queue_call('ZRANGE', sem.queue, from, from + size - 1,
            'WITHSCORES')
    end
    if not raw then return nil, STATUS.broken end
    if from == 0 and raw[1] ~= MARKER
        and not redis.call('ZSCORE', sem.queue, MARKER)
    then
        return nil, STATUS.resync
    end
    return serve_tickets(sem, view, raw)
end

-- Decides about one ticket: 'drop' (its session or epoch has ended), 'park'
-- (its session is alive but cannot take a permit now, or a lowered limit is
-- below its weight), 'stop' (too few free permits), 'skip' (of a pool: too few
-- at the servers that it can use), or 'grant'.
local function serve_decide(sem, view, ticket)
    local entry = view.entries[ticket.session]
    local account = sem.accounts[ticket.session]
    if not entry or not account or ticket.epoch < entry.declared then
        return 'drop'
    end
    if ticket.epoch ~= entry.epoch or entry.declared ~= entry.epoch
        or ticket.epoch ~= account.epoch or entry.silent
        or ticket.weight > view.limit
    then
        return 'park'
    end
    if sem.pool then return pools.decide(sem, view, ticket, account) end
    -- R1: room for a permit
    return sem.held + ticket.weight > view.limit and 'stop' or 'grant'
end

-- Parks a ticket, when the queue is written; text: "epoch ticket weight".
local function queue_park(sem, session, account, epoch, text, place)
    sem.moved[#sem.moved + 1] = string.format('%.0f', place + PARKED)
    sem.moved[#sem.moved + 1] = session .. ' ' .. text
    sem.scores[session .. ' ' .. text] = place + PARKED
    if epoch == account.epoch then account_park(sem, account, 1) end
    local list = sem.lists[session]
    if not list then
        list = {}
        sem.lists[session] = list
    end
    list[#list + 1] = text
end

-- Does it. The queue itself is written later.
local function serve_do(sem, view, act, ticket)
    local session, account = ticket.session, sem.accounts[ticket.session]
    view.steps = view.steps - 1
    if act == 'skip' then return end
    if act == 'park' then
        queue_park(sem, session, account, ticket.epoch, ticket.text,
            ticket.place)
        return
    end
    sem.removed[#sem.removed + 1] = ticket.member
    sem.scores[ticket.member] = false
    if act == 'grant' then
        account_add(sem, account, sem.pool and 0 or ticket.weight, -1)
        view.served[#view.served + 1] = ticket.place
        local list = view.granted[session] or {}
        list[#list + 1] = ticket.number
        view.granted[session] = list
        if not ticket.server then return end
        pools.grant(sem, account, ticket.server, ticket.at)
        if session == sem.session then
            list[#list + 1] = ticket.at
        else
            list[#list] = ticket.number .. '@' .. ticket.server
        end
    elseif account and account.epoch == ticket.epoch then
        account_add(sem, account, 0, -1)
    end
end

-- Whether a permit is free.
local function serve_room(sem, view)
    if sem.pool then return pools.any(sem, view) end
    return sem.held < view.limit
end

-- One page. Returns the class of the ticket that has to wait, FIRST_NONE at
-- the end of the queue, or nil: go on.
local function serve_walk(sem, view, page, size)
    for _, ticket in ipairs(page) do
        if not ticket.session then
            if ticket.member ~= MARKER then
                sem.removed[#sem.removed + 1] = ticket.member
            end
        elseif ticket.place > PARKED / 2 then
            return FIRST_NONE
        -- false: cancelled by this call
        elseif sem.scores[ticket.member] ~= false then
            local act = serve_decide(sem, view, ticket)
            if act == 'stop' then
                view.first_place = ticket.place
                return queue_class(ticket.place)
            end
            serve_do(sem, view, act, ticket)
            if act ~= 'skip' and not serve_room(sem, view) then
                return FIRST_UNKNOWN
            end
            if sem.pool and pools.enough(view) then
                view.more = true
                return FIRST_UNKNOWN
            end
            -- of a pool some tickets cost more
            if view.steps < 0 then return nil end
        end
    end
    return page.size < size and FIRST_NONE or nil
end

-- Serves the queue from its head. Returns the class of the first ticket that
-- is left waiting; nil and a status if the queue is broken or lost.
local function serve(sem, view)
    if sem.waiting == sem.parked then return FIRST_NONE end
    if view.recovering or view.paused or not serve_room(sem, view) then
        return FIRST_UNKNOWN
    end
    local behind = sem.pool and pools.behind(sem, view)
    local from = 0
    local size = math.min(math.max(view.capacity - sem.held, 1), view.steps)
    size = (sem.pool and pools.page(sem, size) or size) + 1
    while view.steps > 0 do
        local page, status = serve_page(sem, view, from, size, behind)
        if not page then return nil, status end
        local class = serve_walk(sem, view, page, size)
        if class then return class end
        from, size = from + size, math.min(2 * size, view.steps)
    end
    view.more = true
    local pool = sem.pool
    if pool then pool.cursor = pool.before or pool.last or pool.cursor end
    return FIRST_UNKNOWN
end
