-- What only a sync of a pool does, see pool.lua.

-- The list, its text if it is stated, and what is released at each server.
function pools.begin(released)
    local id, stated = pool_list_argument(4)
    local freed, sum = pool_argument(5)
    if sum ~= released then
        error('DSEM argument 5 is not what is released', 0)
    end
    return id, stated, freed
end

-- Sets the list of the account, and gives back what is released. Returns a
-- status: nothing has been changed if it is not ok.
function pools.take(call, sem, view, account)
    if call.stated then
        pool_state(sem, call.list, call.stated)
    elseif not pool_list(sem, call.list) then
        return STATUS.unlisted
    end
    account.at = account.at or {}
    for server, n in pairs(call.freed) do
        if n > (account.at[server] or 0) then return STATUS.resync end
    end
    for server, n in pairs(call.freed) do pool_add(sem, account, server, -n) end
    -- its tickets may be anywhere in the queue
    call.moved = account.list ~= call.list or account.chunks > 0
    account.list, view.list = call.list, call.list
    return STATUS.ok
end

-- The limits of the list, by the limit of one server. Permits above a limit may
-- also be at a server that the session can use no more.
function pools.limits(call, sem, view, account)
    local list = pool_list(sem, call.list)
    view.capacity, view.over = pool_size(sem, list, view)
    for server, n in pairs(account.at) do
        if n > 0 and not list.limits[server] then
            local limit = pool_limit(view, server, view.limit)
            view.over = view.over
                + math.max((sem.pool.held[server] or 0) - limit, 0)
        end
    end
    if call.moved then pool_before(sem, view, call.list) end
end

-- The number of the server at which a ticket gets a permit; nil: it does not.
-- walked: all tickets that wait cannot use the servers that are free.
-- R7: queue order
function pools.acquire(call, sem, view, account, ask, walked)
    if view.paused or not walked then return nil end
    local pool = sem.pool
    if pool.rests then
        -- the head, which has the turn, went with the last permit; by the
        -- golden ratio servers have equal parts, whatever tickets a worker
        -- numbers in between
        local part = ask[1] * (math.sqrt(5) - 1) / 2 % 1
        pool.turn = math.floor(part * #pool_list(sem, call.list).names)
        pool.rests = false
    end
    local server, number = pool_choose(sem, view, call.list)
    if server then pools.grant(sem, account, server, number) end
    return number
end

-- A ticket was queued at this place.
function pools.queued(call, sem, view, place)
    if sem.pool.cursor and place <= sem.pool.cursor then
        pool_before(sem, view, call.list)
    end
end

-- Adds the permits of the account at each server of the list.
function pools.counts(call, sem, account, results)
    for _, server in ipairs(pool_list(sem, call.list).names) do
        results[#results + 1] = account.at[server] or 0
    end
end
