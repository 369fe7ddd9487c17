-- Grants free permits to the tickets at the head of the queue, in order. A
-- lighter ticket never overtakes a heavier one before it.

-- Bounds of the work in one call, because a script blocks all other commands.
local DROPPED_AT_ONCE = 100     -- tickets of dead sessions
local SKIPPED_AT_ONCE = 1000    -- tickets that cannot be served now
local PAGE_MIN, PAGE_MAX = 4, 100

-- The rank at which a walk begins: the head, or behind the tickets that the
-- last call skipped without a grant. Rank 0 is the marker.
local function serve_start(sem)
    if not sem.skip then return 1 end
    return math.max(redis.call('ZCOUNT', sem.queue, '-inf', sem.skip), 1)
end

-- Too many tickets in a row were skipped: the next call starts behind them.
local function serve_mark_skipped(sem, rank)
    local last = redis.call('ZRANGE', sem.queue, rank, rank, 'WITHSCORES')
    sem.skip = last[2]
end

-- Decides about one ticket: 'drop' (its session or epoch has ended), 'skip'
-- (its session is alive but cannot take a permit now, or a lowered limit is
-- below its weight), 'stop' (too few free permits), or 'grant'.
local function serve_decide(sem, view, member, session, epoch, weight)
    if not session then
        -- not a ticket; the marker stays, whatever stands before it
        return member == MARKER and 'skip' or 'drop'
    end
    local known = session_view(view, session)
    if not known or epoch < known.declared then
        return 'drop'
    end
    if epoch ~= known.epoch or known.declared ~= known.epoch
        or known.silent or weight > view.limit
    then
        return 'skip'
    end
    if sem.held + weight > view.limit then
        return 'stop'
    end
    return 'grant'
end

-- One walk from the head. Puts grants into view.granted. Returns true when
-- tickets are left that want a permit.
local function serve_walk(sem, view)
    if sem.held >= view.limit then return sem.waiting > 0 end
    local from = serve_start(sem)
    local last = from + SKIPPED_AT_ONCE
    -- set again only if this walk ends at the bound, too: else the next call
    -- starts at the head
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
            local act = serve_decide(sem, view, member, session, epoch,
                weight)
            if act == 'stop' then
                return true
            elseif act == 'skip'
                or act == 'drop' and view.dropped >= DROPPED_AT_ONCE
            then
                -- a dead ticket that stays must not block those behind it
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
            serve_mark_skipped(sem, from - 1)
            return true
        end
    end
    return false
end

-- Serves the queue. When tickets are left and sessions have ended since the
-- last scan of this semaphore, it scans the accounts and serves again.
local function serve(sem, view)
    if sem.waiting == 0 or view.recovering or view.paused then return end
    if serve_walk(sem, view) and sem.seen ~= view.ended then
        semaphore_scan(sem, view)
        serve_walk(sem, view)
    end
end
