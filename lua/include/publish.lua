-- Messages of a command about its semaphore. call has the session that sends
-- the command, its epoch, and the name of the semaphore.

-- bytes of a malformed order that a message has
local ORDER_SHOWN = 64

local function publish(view, session, text)
    view_load(view, { session })
    local entry = view.entries[session]
    if entry then entry_publish(view.key, session, entry, text) end
end

-- Tickets that were granted, but for those that the reply has, sessions with
-- tickets that were dropped, and sessions that are to release idle permits.
local function publish_changes(call, sem, view, recalled)
    for session, tickets in pairs(view.granted) do
        if session ~= sem.session then
            publish(view, session, string.format('grant %s %d %d %d %s',
                call.name, sem.accounts[session].epoch, sem.held,
                view.capacity, table.concat(tickets, ' ')))
        end
    end
    for session in pairs(view.dropped) do
        publish(view, session, string.format('drop %s %d', call.name,
            sem.accounts[session].epoch))
    end
    view_load(view, recalled)
    for _, session in ipairs(recalled) do
        publish(view, session, string.format('recall %s %d', call.name,
            sem.accounts[session].epoch))
    end
end

-- What the node of the calling session counts or logs.
local function publish_notes(call, view)
    local about = string.format('%s %d ', call.name, call.epoch)
    if view.reclaimed > 0 then
        publish(view, call.session, string.format('reclaimed %s%.0f', about,
            view.reclaimed))
    end
    if view.malformed then
        publish(view, call.session, 'order ' .. about
            .. string.sub(view.malformed, 1, ORDER_SHOWN))
    end
end
