-- Dead tickets, of sessions and epochs that have ended, at the end of the
-- queue. Those at its head are dropped on the way to a live one. Behind tickets
-- that come before them again and again, of new keys or of a better class, they
-- would stay for ever, and their keys would pay for them.

-- @include "include/dead_wait.lua"

-- Drops a dead ticket. alive: keys of live ones behind it, which have paid.
local function dead_drop(sem, view, ticket, name, alive)
    serve_do(sem, view, 'drop', ticket)
    local class, key = string.match(name, '^(%S+) (.+)$')
    if key and not alive[name] then
        class = tonumber(class)
        fairs.dropped(sem, class, key, ticket.place - class * CLASS)
    end
end

-- Drops those among the last tickets of the queue, but for parked ones: half of
-- what this call may read. Where some leave there may be more: the next call
-- of any session goes on. Commands that have keys have the tags.
local function dead_sweep(sem, view)
    local size = math.floor(view.steps / 2)
    if not dead_wait(sem) then return end
    if view.recovering or size < 1 then return dead_later(sem, view) end
    local raw = redis.call('ZRANGE', sem.queue, string.format('%.0f',
        PARKED / 2), '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, size, 'WITHSCORES')
    local page, alive, gone = serve_tickets(sem, view, raw), {}, false
    for _, ticket in ipairs(page) do
        if sem.scores[ticket.member] == false then
            gone = true
        elseif ticket.session then
            local name = queue_class(ticket.place) .. ' '
                .. string.match(ticket.text, '^%d+ %d+ %d+ ?(.*)$')
            if serve_decide(sem, view, ticket) ~= 'drop' then
                alive[name] = true
            elseif sem.fair or not string.find(name, ' .') then
                dead_drop(sem, view, ticket, name, alive)
                gone = true
            end
        end
    end
    if gone and page.size == size then
        view.more = true
        dead_later(sem, view)
    end
end
