-- One semaphore: its HASH, read once, changed in memory, written once. The
-- field "." is the head, ten integers:
--   held waiting limit seq seen touched active recalled parked tail
-- held: permits in use or idle; waiting: tickets; limit: the configured one in
-- force; seq: sequence number of the last ticket; seen: number of ended
-- sessions that this semaphore has handled; touched: when the expiry was last
-- set; active, recalled: accounts by reuse; parked: tickets waiting that
-- cannot be served now; tail: last place in the queue since it was last empty;
-- while tickets with keys wait, what include/fair.lua needs; and " !<untold>",
-- if not 0: number of accounts that list dropped tickets for their sessions. A
-- semaphore with such an account is kept when it is empty, as the list would be
-- lost with it: the patterns of the short paths, which delete empty semaphores,
-- do not match its head. That of a pool goes on, see pool.lua.

-- Semaphores expire as garbage only: one in use is touched once an hour. The
-- expiry is on the host's clock, whose steps must not reach it.

-- Tickets, accounts and ended sessions of others that one call reads.
local STEPS = 64

-- The clock now, computed at first use: few commands need it.
local function view_clock(view)
    if not view.now then
        view.now = clock_now(view.clock, view.wall, view.lease, wall_now())
    end
    return view.now
end

-- What a command on a semaphore knows of the shard, from the head and the
-- session's entry as read. nil: the session is unknown. steps: what this call
-- may still read; more: it has left work for the next call. entries caches
-- those of sessions, granted has lists of tickets by session, served their
-- places; dropped: sessions with tickets dropped from a full queue; reclaimed:
-- permits of ended sessions; most: see pool_most().
local function view_new(key, session, head, text)
    local view, entry = shard_parse(key, head), entry_parse(text)
    if not view or not entry then return nil end
    view.entry, view.recovery = entry, 0
    view.entries, view.granted = { [session] = entry }, {}
    view.served, view.dropped, view.most = {}, {}, {}
    view.steps, view.more, view.reclaimed = STEPS, false, 0
    if view.recover_until > view.clock then
        view.recovery = math.max(view.recover_until - view_clock(view), 0)
    end
    view.recovering = view.recovery > 0
    return view
end

-- Reads the entries of these sessions that are not in memory yet; false: not
-- registered. silent: it has missed two heartbeats.
local function view_load(view, sessions)
    hash_load(view.key, sessions, view.entries, function(text)
        local entry = entry_parse(text) or false
        if entry then
            entry.silent = entry_silent(view, entry.ends, entry.lease)
        end
        return entry
    end)
end

-- The semaphore with the account of one session, from its fields as read; nil
-- and a status: a key has the wrong type, or it is a pool and should not be
-- one, or the other way round; a_pool nil: as it is. limit is nil until a first
-- one is stored.
-- Places in a new queue begin at the clock, above all places of its earlier
-- lives.
local function semaphore_new(key, queue, session, values, view, a_pool)
    if values.err then return nil, STATUS.broken end
    -- R10: head of a semaphore
    local all, pool = values[1] or '', nil
    local servers = string.find(all, ' /', 1, true)
    if values[1] and a_pool ~= nil and a_pool ~= (servers ~= nil) then
        return nil, STATUS.mixed
    end
    if servers or a_pool then
        pool = pools.parse(string.sub(all, (servers or #all) + 2))
        all = string.sub(all, 1, (servers or 1) - 1)
    end
    local head, untold = string.match(all, '^(.*) !(%d+)$')
    local held, waiting, limit, seq, seen, touched, active, recalled, parked,
        tail, fair = string.match(head or all, '^(%d+) (%d+) (%d+)'
            .. ' (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%-?%d+)([%d: -]*)$')
    return {
        key = key, queue = queue, text = values[1],
        held = tonumber(held) or 0, waiting = tonumber(waiting) or 0,
        limit = tonumber(limit), seq = tonumber(seq) or view_clock(view),
        seen = tonumber(seen) or view.ended, touched = tonumber(touched),
        reuse = { tonumber(active) or 0, tonumber(recalled) or 0 },
        parked = tonumber(parked) or 0, tail = tonumber(tail) or 0,
        fair_text = fair or '', untold = tonumber(untold) or 0,
        had_queue = (tonumber(waiting) or 0) > 0, session = session,
        accounts = { [session] = account_parse(values[2]) },
        scores = {}, removed = {}, moved = {}, added = {}, lists = {},
        set = {}, gone = {}, pool = pool
    }
end

-- By how many tickets the queue may exceed its length: the permits of other
-- sessions while some may be idle, so that no request is rejected while an
-- idle permit exists.
local function semaphore_slack(sem, account, view)
    local others = sem.reuse[REUSE.active] + sem.reuse[REUSE.recalled]
        - (account.reuse > 0 and 1 or 0)
    return others > 0 and math.min(sem.held - account.held, view.capacity) or 0
end

-- Collects the fields that have changed.
local function semaphore_fields(sem)
    local set, gone = sem.set, sem.gone
    for session, account in pairs(sem.accounts) do
        if account then
            queue_list(sem, session, account)
            local text = account_text(account)
            if sem.pool and pools.count(sem, account, not text) then
                text = account_text(account)
            end
            if not text and account.text then
                gone[#gone + 1] = session
            elseif text ~= account.text then
                set[#set + 1], set[#set + 2] = session, text
            end
        end
    end
end

-- A command that has no tags has granted tickets: V of their classes advances,
-- see fair.lua.
local function semaphore_virtual(sem, view)
    if sem.fair_text == '' then return end
    for _, place in ipairs(view.served) do
        local class = queue_class(place)
        local tag = place - class * CLASS
        sem.fair_text = string.gsub(sem.fair_text, ' (%-?%d):(%d+)',
            function(of_class, V)
                if tonumber(of_class) == class and tonumber(V) < tag then
                    return string.format(' %d:%.0f', class, tag)
                end
            end)
    end
end

-- Writes what has changed. Deletes the semaphore if no permit is held, no
-- ticket waits, and no account lists dropped tickets.
local function semaphore_write(sem, view)
    if sem.held == 0 and sem.waiting == 0 and sem.untold == 0 then
        redis.call('UNLINK', sem.key, sem.queue)
        return
    end
    semaphore_fields(sem)
    if not sem.fair then semaphore_virtual(sem, view) end
    local passed = view.clock - (sem.touched or -TOUCH_MS)
    local touch = passed < 0 or passed >= TOUCH_MS
    if touch then sem.touched = view.clock end
    if sem.waiting == 0 then sem.tail, sem.fair_text = 0, '' end
    -- R10: head of a semaphore
    local text = string.format(
        '%.0f %.0f %.0f %.0f %.0f %.0f %d %d %.0f %.0f%s', sem.held,
        sem.waiting, sem.limit, sem.seq, sem.seen, sem.touched, sem.reuse[1],
        sem.reuse[2], sem.parked, sem.tail, sem.fair_text)
    if sem.untold > 0 then text = text .. ' !' .. sem.untold end
    if sem.pool then text = text .. pools.text(sem) end
    local set, gone = sem.set, sem.gone
    if text ~= sem.text then set[#set + 1], set[#set + 2] = '.', text end
    -- without a head it is new, or left over from another layout
    if not sem.text then redis.call('UNLINK', sem.key) end
    -- in this order: a list that was taken away may be written again
    if #gone > 0 then redis.call('HDEL', sem.key, unpack(gone)) end
    if #set > 0 then redis.call('HSET', sem.key, unpack(set)) end
    if touch then redis.call('PEXPIRE', sem.key, EXPIRE_MS) end
    if sem.waiting > 0 and (touch or not sem.had_queue) then
        redis.call('PEXPIRE', sem.queue, EXPIRE_MS)
    end
end
