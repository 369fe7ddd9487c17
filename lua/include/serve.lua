-- Hands free permits to the head of the queue, in order. A lighter ticket
-- behind the head never overtakes it.

local DROPPED_AT_ONCE = 100     -- garbage of the dead, per call
local STEPPED_AT_ONCE = 1000    -- tickets that cannot be served now, per call
local PAGE_MIN, PAGE_MAX = 4, 100

-- Where the walk begins: at the head, or behind the tickets that the last
-- call has stepped over without finding one to serve.
local function serve_from(sem)
    if not sem.skip then return 1 end
    return math.max(redis.call('ZCOUNT', sem.queue, '-inf', sem.skip), 1)
end

-- Too many in a row cannot be served: the next call goes on behind them.
local function serve_skip(sem, rank)
    local last = redis.call('ZRANGE', sem.queue, rank, rank, 'WITHSCORES')
    sem.skip = last[2]
end

-- What to do with one ticket at the head: 'drop' (its session or epoch is
-- over), 'step' over it (its session lives but cannot take a permit now, or
-- a lowered limit has made it too heavy), 'stop' or 'grant'.
local function serve_judge(sem, view, member, session, epoch, weight)
    if not session then
        -- no ticket of ours; the marker, where a stranger is before it, stays
        return member == MARKER and 'step' or 'drop'
    end
    local known = session_view(view, session)
    if not known or epoch < known.declared then
        return 'drop'
    end
    if epoch ~= known.epoch or known.declared ~= known.epoch
        or known.silent or weight > view.limit
    then
        return 'step'
    end
    if sem.held + weight > view.limit then
        return 'stop'
    end
    return 'grant'
end

-- One walk from the head. Grants are noted in view.granted, by session:
-- a list of tickets. Returns true when somebody is left who wants a permit.
local function serve_walk(sem, view)
    if sem.held >= view.limit then return sem.waiting > 0 end
    local from = serve_from(sem)        -- rank 0 is the marker
    local last = from + STEPPED_AT_ONCE
    -- where somebody is found, or the end, the next call looks at all again
    sem.skip = nil
    while sem.waiting > 0 do
        local free = view.limit - sem.held
        if free <= 0 then return true end
        local size = math.min(math.max(free, PAGE_MIN), PAGE_MAX)
        local page = redis.call('ZRANGE', sem.queue, from, from + size - 1)
        for _, member in ipairs(page) do
            local session, epoch, ticket, weight =
                string.match(member, '^(%S+) (%d+) (%d+) (%d+)$')
            epoch, weight = tonumber(epoch), tonumber(weight)
            local act = serve_judge(sem, view, member, session, epoch,
                weight)
            if act == 'stop' then
                return true
            elseif act == 'step'
                or act == 'drop' and view.dropped >= DROPPED_AT_ONCE
            then
                -- garbage that is left for later hides nobody behind it
                from = from + 1
            else
                redis.call('ZREM', sem.queue, member)
                local account = session and account_get(sem, session)
                if act == 'grant' then
                    account = account
                        or account_set(sem, session, epoch, 0, 0)
                    account_add(sem, account, weight, -1)
                    local list = view.granted[session] or {}
                    list[#list + 1] = ticket
                    view.granted[session] = list
                else
                    if account and account.epoch == epoch then
                        account_add(sem, account, 0, -1)
                    end
                    view.dropped = view.dropped + 1
                end
            end
        end
        if #page < size then return sem.waiting > 0 end
        if from >= last then
            serve_skip(sem, from - 1)
            return true
        end
    end
    return false
end

-- Serves the queue. When somebody is left waiting and a session has ended
-- since this semaphore looked through its accounts, it looks, and serves
-- again.
local function serve(sem, view)
    if sem.waiting == 0 or view.recovering or view.paused then return end
    if serve_walk(sem, view) and sem.seen ~= view.ended then
        semaphore_scan(sem, view)
        serve_walk(sem, view)
    end
end
