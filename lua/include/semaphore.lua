-- One semaphore: its HASH and its queue, read once, changed in memory, written
-- once. An account is what one session has of the semaphore, stored as
-- "epoch held waiting" or "epoch held waiting reuse". It is the positive
-- record of grants: a ticket that is not in the queue proves nothing.

-- Whether permits of an account may be idle, kept by the worker for its next
-- request: the fourth number of an account, absent for none. The field "keep"
-- has the number of accounts in each of the other two states.
local REUSE = {
    none = 0,
    active = 1,     -- the session keeps permits that become free
    recalled = 2    -- asked to return idle permits, no sync since then
}

-- Semaphores expire as garbage only: one in use is touched once an hour.
local EXPIRE_MS, TOUCH_MS = 86400000, 3600000

-- The first member of every queue, at rank 0: a queue without it was lost.
local MARKER = 'queue'

-- The clock now, computed at first use: few commands need it.
local function view_clock(view)
    if not view.clock then
        view.clock = clock_now(view.stored_clock, view.stored_wall,
            view.lease, wall_now())
    end
    return view.clock
end

-- The state of the shard that a command needs, read once. sessions caches
-- registry entries, granted has lists of tickets by session, recalled is a
-- list of sessions. Silence of a session is judged by the stored clock,
-- because a step of the host's clock does not move it. field: one more field
-- of the meta HASH, by name, nil: none.
local function shard_view(meta, registry, epochs, lease, field)
    local v = redis.call('HMGET', meta, 'gen', 'clock', 'wall', 'ended',
        'recover_until', field or 'gen')
    local view = {
        meta = meta, registry = registry, epochs = epochs, lease = lease,
        gen = tonumber(v[1]), stored_clock = tonumber(v[2]) or 0,
        stored_wall = tonumber(v[3]), ended = tonumber(v[4]) or 0,
        recovery = 0, recovering = false, field = field and v[6],
        sessions = {}, granted = {}, recalled = {}, dropped = 0
    }
    local recover_until = tonumber(v[5]) or 0
    if recover_until > view.stored_clock then
        view.recovery = math.max(recover_until - view_clock(view), 0)
        view.recovering = view.recovery > 0
    end
    return view
end

-- The field "keep": numbers of accounts with active and recalled reuse.
local function reuse_parse(text)
    if not text then return { 0, 0 } end
    local active, recalled = string.match(text, '^(%d+) (%d+)$')
    return { tonumber(active) or 0, tonumber(recalled) or 0 }
end

-- Reads the semaphore and the account of one session. Returns nil when a key
-- has the wrong type. limit is nil until the first limit is stored. Places in
-- a new queue begin at the clock, above all places of its earlier lives.
local function semaphore_read(key, queue, session, view)
    local v = redis.pcall('HMGET', key, 'held', 'waiting', 'limit', 'seq',
        'seen', 'touched', session, 'skip', 'keep')
    if v.err then return nil end
    return {
        key = key, queue = queue, stored = v,
        held = tonumber(v[1]) or 0, waiting = tonumber(v[2]) or 0,
        limit = tonumber(v[3]), seq = tonumber(v[4]) or view_clock(view),
        seen = tonumber(v[5]) or view.ended, touched = tonumber(v[6]),
        accounts = {}, own_session = session, own_text = v[7],
        skip = v[8] or nil, reuse = reuse_parse(v[9])
    }
end

-- Checks whether the queue exists, for commands that may use it. Returns false
-- when its key has the wrong type. A registry of the wrong type is an error
-- of the whole script, because it concerns all semaphores.
local function queue_read(sem, view)
    local mark = redis.pcall('ZSCORE', sem.queue, MARKER)
    if type(mark) == 'table' and mark.err then return false end
    redis.call('ZCARD', view.registry)
    sem.has_marker = mark and true
    return true
end

local function account_parse(text)
    if not text then return nil end
    local epoch, held, waiting, reuse =
        string.match(text, '^(%d+) (%d+) (%d+) ?(%d?)$')
    if not epoch then return nil end
    return { epoch = tonumber(epoch), held = tonumber(held),
        waiting = tonumber(waiting), reuse = tonumber(reuse) or REUSE.none }
end

-- Sets the reuse of an account, and counts it in the semaphore.
local function account_set_reuse(sem, account, reuse)
    if account.reuse == reuse then return end
    if account.reuse > 0 then
        sem.reuse[account.reuse] = sem.reuse[account.reuse] - 1
    end
    if reuse > 0 then sem.reuse[reuse] = sem.reuse[reuse] + 1 end
    account.reuse = reuse
    account.changed = true
end

-- The account of a session, read at first use; false: it has none.
local function account_get(sem, session)
    local account = sem.accounts[session]
    if account == nil then
        local text = sem.own_text
        if session ~= sem.own_session then
            text = redis.call('HGET', sem.key, session)
        end
        account = account_parse(text) or false
        sem.accounts[session] = account
    end
    return account
end

-- Replaces the account of the session, or creates it.
local function account_set(sem, session, epoch, held, waiting)
    local old = account_get(sem, session)
    if old then
        account_set_reuse(sem, old, REUSE.none)
        sem.held = sem.held - old.held
        sem.waiting = sem.waiting - old.waiting
    end
    local account = { epoch = epoch, held = held, waiting = waiting,
        reuse = REUSE.none, changed = true }
    sem.held = sem.held + held
    sem.waiting = sem.waiting + waiting
    sem.accounts[session] = account
    return account
end

-- Adds to an account and to the sums. A decrease stops at zero: a scan sets
-- the account of a dead session to zero while its tickets are still queued.
local function account_add(sem, account, held, waiting)
    if held < -account.held then held = -account.held end
    if waiting < -account.waiting then waiting = -account.waiting end
    account.held = account.held + held
    account.waiting = account.waiting + waiting
    account.changed = true
    sem.held = sem.held + held
    sem.waiting = sem.waiting + waiting
end

-- The registry entry of a session, looked up once per call; false: none. A
-- session is silent two heartbeat intervals after its last heartbeat.
local function session_view(view, session)
    local known = view.sessions[session]
    if known == nil then
        local epoch, declared, lease = registry_read(view.epochs, session)
        known = false
        if epoch then
            local ends = redis.call('ZSCORE', view.registry, session)
            local quiet = lease - 2 * heartbeat(lease)
            known = {
                epoch = epoch, declared = declared,
                silent = not ends or ends - view.stored_clock < quiet
            }
        end
        view.sessions[session] = known
    end
    return known
end

-- Reads all accounts that are not in memory yet.
local function accounts_read(sem)
    local all = redis.call('HGETALL', sem.key)
    for i = 1, #all, 2 do
        if string.find(all[i], ':', 1, true)
            and sem.accounts[all[i]] == nil
        then
            sem.accounts[all[i]] = account_parse(all[i + 1]) or false
        end
    end
end

-- Checks all accounts: drops those of removed sessions and of epochs before
-- the declared one, and computes the sums again. Removing a session therefore
-- costs nothing until its permits are wanted.
local function semaphore_scan(sem, view)
    accounts_read(sem)
    sem.held, sem.waiting, sem.reuse = 0, 0, { 0, 0 }
    for session, account in pairs(sem.accounts) do
        local known = account and session_view(view, session)
        if account and (not known or account.epoch < known.declared) then
            sem.accounts[session] = { epoch = account.epoch, held = 0,
                waiting = 0, reuse = REUSE.none, changed = true }
        elseif account then
            sem.held = sem.held + account.held
            sem.waiting = sem.waiting + account.waiting
            if account.reuse > 0 then
                sem.reuse[account.reuse] = sem.reuse[account.reuse] + 1
            end
        end
    end
    sem.seen = view.ended
end

-- Recalls idle permits of other sessions while tickets wait: from the largest
-- holders, until their permits cover the demand. A session is recalled once
-- until its next sync. view.recalled has the sessions to notify.
local function semaphore_recall(sem, view)
    if sem.waiting == 0 or sem.reuse[REUSE.active] == 0 or view.paused then
        return
    end
    accounts_read(sem)
    local holders = {}
    for session, account in pairs(sem.accounts) do
        if account and account.reuse == REUSE.active
            and session ~= sem.own_session
        then
            holders[#holders + 1] = session
        end
    end
    table.sort(holders, function(a, b)
        local x, y = sem.accounts[a].held, sem.accounts[b].held
        return x > y or (x == y and a < b)
    end)
    local demand = sem.waiting
    for _, session in ipairs(holders) do
        if demand <= 0 then return end
        local account = sem.accounts[session]
        demand = demand - account.held
        account_set_reuse(sem, account, REUSE.recalled)
        view.recalled[#view.recalled + 1] = session
    end
end

-- By how many tickets the queue may exceed its length: the permits of other
-- sessions while some may be idle, so that no request is rejected while an
-- idle permit exists.
local function semaphore_slack(sem, account, view)
    local others = sem.reuse[REUSE.active] + sem.reuse[REUSE.recalled]
        - (account.reuse > 0 and 1 or 0)
    return others > 0 and math.min(sem.held - account.held, view.limit) or 0
end

-- True when the queue key was lost while tickets wait: the accounts count
-- tickets, but the marker is missing. Accounts of dead sessions are dropped
-- first. All state then counts as lost: a new generation makes every session
-- send hello and declare its tickets.
-- except: a session whose own tickets do not count, it declares them now.
local function semaphore_queue_lost(sem, view, except)
    local function lost()
        local own = except and account_get(sem, except)
        local waiting = sem.waiting - (own and own.waiting or 0)
        return waiting > 0 and not sem.has_marker and not view.recovering
    end

    if lost() and sem.seen ~= view.ended then
        semaphore_scan(sem, view)
    end
    if not lost() then return false end

    redis.call('HSET', view.meta, 'gen', string.format('%.0f', view.gen + 1),
        'created', view_clock(view),
        'recover_until', view_clock(view) + view.lease)
    return true
end

-- The distance of two priority classes in places, above every sequence number.
local CLASS = 10000000000000

-- Adds a ticket to the queue and returns its place. A new ticket (place nil)
-- goes behind all others of its class.
local function queue_add(sem, member, place, class)
    if not place then
        sem.seq = sem.seq + 1
        place = class * CLASS + sem.seq
    else
        sem.seq = math.max(sem.seq, place % CLASS)
    end
    if not sem.has_marker then
        redis.call('ZADD', sem.queue, '-inf', MARKER)
        sem.has_marker, sem.touch_queue = true, true
    end
    redis.call('ZADD', sem.queue, string.format('%.0f', place), member)
    return place
end

-- An account as it is stored.
local function account_text(account)
    return string.format(account.reuse > 0 and '%d %d %d %d' or '%d %d %d',
        account.epoch, account.held, account.waiting, account.reuse)
end

-- Writes the changed fields in one or two commands. A semaphore without held
-- permits and waiting tickets is deleted. A queue without waiting tickets
-- holds only tickets of dead sessions and is deleted, too.
local function semaphore_write(sem, view)
    if sem.held == 0 and sem.waiting == 0 then
        redis.call('UNLINK', sem.key, sem.queue)
        return
    end

    local set, gone = { 'HSET', sem.key }, { 'HDEL', sem.key }
    -- i: index of the field in sem.stored, nil when it was not read
    local function put(i, field, text)
        if sem.stored[i] ~= text then
            set[#set + 1], set[#set + 2] = field, text
        end
    end

    for session, account in pairs(sem.accounts) do
        if account and account.changed then
            if account.held == 0 and account.waiting == 0 then
                account_set_reuse(sem, account, REUSE.none)
                gone[#gone + 1] = session
            else
                put(session == sem.own_session and 7, session,
                    account_text(account))
            end
        end
    end

    put(1, 'held', string.format('%d', sem.held))
    put(2, 'waiting', string.format('%d', sem.waiting))
    put(3, 'limit', string.format('%d', sem.limit))
    put(4, 'seq', string.format('%.0f', sem.seq))
    put(5, 'seen', string.format('%d', sem.seen))
    local passed = view.stored_clock - (sem.touched or -TOUCH_MS)
    local touch = passed < 0 or passed >= TOUCH_MS
    if touch then put(6, 'touched', string.format('%d', view.stored_clock)) end
    if sem.skip then
        put(8, 'skip', sem.skip)
    elseif sem.stored[8] then
        gone[#gone + 1] = 'skip'
    end
    if sem.reuse[REUSE.active] + sem.reuse[REUSE.recalled] > 0 then
        put(9, 'keep', string.format('%d %d', sem.reuse[REUSE.active],
            sem.reuse[REUSE.recalled]))
    elseif sem.stored[9] then
        gone[#gone + 1] = 'keep'
    end

    if #set > 2 then redis.call(unpack(set)) end
    if #gone > 2 then redis.call(unpack(gone)) end

    if touch then
        redis.call('PEXPIRE', sem.key, EXPIRE_MS)
        sem.touch_queue = true
    end
    if sem.waiting == 0 and sem.has_marker then
        redis.call('UNLINK', sem.queue)
    elseif sem.waiting > 0 and sem.touch_queue then
        redis.call('PEXPIRE', sem.queue, EXPIRE_MS)
    end
end
