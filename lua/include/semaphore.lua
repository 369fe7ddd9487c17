-- One semaphore: its HASH and its queue, read once, changed here, written
-- once. An account is what one session has of it, stored as
-- "epoch held waiting"; it is the positive record of grants. Absence from
-- the queue proves nothing. A fourth number, where there is one, says that
-- some of what is held may lie idle there: 1 the session keeps permits that
-- come free, 2 it was asked to give them back and has not spoken since.

-- Garbage only: a semaphore in use is touched once an hour.
local EXPIRE_MS, TOUCH_MS = 86400000, 3600000

-- The first member of every queue, at rank 0: a queue without it is lost.
local MARKER = 'queue'

-- What the clock shows now: few commands need to know.
local function view_clock(view)
    if not view.clock then
        view.clock = clock_now(view.stored, view.wall, view.lease, wall_now())
    end
    return view.clock
end

-- What a command needs to know of the shard, read once. sessions caches
-- what the registry says of each, granted gathers tickets by session. Who is
-- silent is judged by the stored clock, which no step of the host's moves.
local function shard_view(meta, registry, epochs, lease)
    local v = redis.call('HMGET', meta, 'gen', 'clock', 'wall', 'ended',
        'recover_until')
    local stored = tonumber(v[2]) or 0
    local view = {
        meta = meta, registry = registry, epochs = epochs, lease = lease,
        gen = tonumber(v[1]), stored = stored, wall = tonumber(v[3]),
        ended = tonumber(v[4]) or 0, recovery = 0, recovering = false,
        sessions = {}, granted = {}, recalled = {}, dropped = 0
    }
    local til = tonumber(v[5]) or 0
    if til > stored then
        view.recovery = math.max(til - view_clock(view), 0)
        view.recovering = view.recovery > 0
    end
    return view
end

-- How many sessions keep idle permits, and how many were asked for them.
local function keep_parse(text)
    if not text then return { 0, 0 } end
    local keeping, asked = string.match(text, '^(%d+) (%d+)$')
    return { tonumber(keeping) or 0, tonumber(asked) or 0 }
end

-- Reads the semaphore and the account of one session. Returns nil when a
-- key of it has the wrong type. limit is nil when nobody has told it yet. A
-- fresh semaphore begins behind the places of its earlier lives.
local function semaphore_read(key, queue, session, view)
    local v = redis.pcall('HMGET', key, 'held', 'waiting', 'limit', 'seq',
        'seen', 'touched', session, 'skip', 'keep')
    if v.err then return nil end
    return {
        key = key, queue = queue, stored = v,
        held = tonumber(v[1]) or 0, waiting = tonumber(v[2]) or 0,
        limit = tonumber(v[3]), seq = tonumber(v[4]) or view_clock(view),
        seen = tonumber(v[5]) or view.ended, touched = tonumber(v[6]),
        accounts = {}, raw = v[7], own = session,
        skip = v[8] or nil, keep = keep_parse(v[9])
    }
end

-- Looks whether the queue is there, for those who may meet it. False when
-- its key, or the registry's, has the wrong type: that of the registry is an
-- error of all.
local function queue_read(sem, view)
    local mark = redis.pcall('ZSCORE', sem.queue, MARKER)
    if type(mark) == 'table' and mark.err then return false end
    redis.call('ZCARD', view.registry)
    sem.marked = mark and true
    return true
end

local function account_parse(text)
    if not text then return nil end
    local epoch, held, waiting, keep =
        string.match(text, '^(%d+) (%d+) (%d+) ?(%d?)$')
    if not epoch then return nil end
    return { epoch = tonumber(epoch), held = tonumber(held),
        waiting = tonumber(waiting), keep = tonumber(keep) or 0 }
end

-- Notes whether some of what an account holds may lie idle there: 0 to 2.
local function account_keep(sem, account, keep)
    if account.keep == keep then return end
    if account.keep > 0 then
        sem.keep[account.keep] = sem.keep[account.keep] - 1
    end
    if keep > 0 then sem.keep[keep] = sem.keep[keep] + 1 end
    account.keep = keep
    account.changed = true
end

-- The account of a session, from what was read before or from Redis.
local function account_get(sem, session)
    local account = sem.accounts[session]
    if account == nil then
        local text = sem.raw
        if session ~= sem.own then
            text = redis.call('HGET', sem.key, session)
        end
        account = account_parse(text) or false
        sem.accounts[session] = account
    end
    return account
end

-- Puts a new account in the place of the session's old one, if any.
local function account_set(sem, session, epoch, held, waiting)
    local old = account_get(sem, session)
    if old then
        account_keep(sem, old, 0)
        sem.held = sem.held - old.held
        sem.waiting = sem.waiting - old.waiting
    end
    local account = { epoch = epoch, held = held, waiting = waiting,
        keep = 0, changed = true }
    sem.held = sem.held + held
    sem.waiting = sem.waiting + waiting
    sem.accounts[session] = account
    return account
end

-- Changes an account, and the sums by what really changed: the account of a
-- dead session is at zero after a scan, while its tickets are still met.
local function account_add(sem, account, held, waiting)
    if held < -account.held then held = -account.held end
    if waiting < -account.waiting then waiting = -account.waiting end
    account.held = account.held + held
    account.waiting = account.waiting + waiting
    account.changed = true
    sem.held = sem.held + held
    sem.waiting = sem.waiting + waiting
end

-- The registry's view of a session, looked up once per call.
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
                silent = not ends or ends - view.stored < quiet
            }
        end
        view.sessions[session] = known
    end
    return known
end

-- Reads all accounts that have not been read before.
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

-- Looks through all accounts: those of sessions that have left, or of epochs
-- before the declared one, are dropped; what is held and what waits is
-- summed anew. So a dead session costs nothing until somebody wants its
-- permits.
local function semaphore_scan(sem, view)
    accounts_read(sem)
    sem.held, sem.waiting, sem.keep = 0, 0, { 0, 0 }
    for session, account in pairs(sem.accounts) do
        local known = account and session_view(view, session)
        if account and (not known or account.epoch < known.declared) then
            sem.accounts[session] = { epoch = account.epoch, held = 0,
                waiting = 0, keep = 0, changed = true }
        elseif account then
            sem.held = sem.held + account.held
            sem.waiting = sem.waiting + account.waiting
            if account.keep > 0 then
                sem.keep[account.keep] = sem.keep[account.keep] + 1
            end
        end
    end
    sem.seen = view.ended
end

-- Somebody waits while others may have idle permits: asks for them, the
-- largest holders first, until what they hold covers the demand. Each is
-- asked once until it speaks; whom to tell is noted in view.recalled.
local function semaphore_recall(sem, view)
    if sem.waiting == 0 or sem.keep[1] == 0 or view.paused then return end
    accounts_read(sem)
    local keeping = {}
    for session, account in pairs(sem.accounts) do
        if account and account.keep == 1 and session ~= sem.own then
            keeping[#keeping + 1] = session
        end
    end
    table.sort(keeping, function(a, b)
        local x, y = sem.accounts[a].held, sem.accounts[b].held
        return x > y or (x == y and a < b)
    end)
    local demand = sem.waiting
    for _, session in ipairs(keeping) do
        if demand <= 0 then return end
        local account = sem.accounts[session]
        demand = demand - account.held
        account_keep(sem, account, 2)
        view.recalled[#view.recalled + 1] = session
    end
end

-- How much longer than it should be the queue may be: by what others hold
-- while some of that may lie idle, so that nobody is refused beside it.
local function semaphore_slack(sem, mine, view)
    local keeping = sem.keep[1] + sem.keep[2] - (mine.keep > 0 and 1 or 0)
    return keeping > 0 and math.min(sem.held - mine.held, view.limit) or 0
end

-- True when the queue key was lost while somebody waits: the counts say that
-- there are tickets, the marker says that there is no queue. Accounts of the
-- dead are looked through first. All state then counts as lost: a new
-- generation is set, every session says hello and declares its tickets.
-- except: the session whose own tickets do not matter, it declares them now.
local function semaphore_queue_lost(sem, view, except)
    local function lost()
        local own = except and account_get(sem, except)
        local waiting = sem.waiting - (own and own.waiting or 0)
        return waiting > 0 and not sem.marked and not view.recovering
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

-- A ticket into the queue; the place of a new one is behind all others of
-- its class. Returns the place.
local CLASS = 10000000000000

local function queue_add(sem, member, place, class)
    if not place then
        sem.seq = sem.seq + 1
        place = class * CLASS + sem.seq
    else
        sem.seq = math.max(sem.seq, place % CLASS)
    end
    if not sem.marked then
        redis.call('ZADD', sem.queue, '-inf', MARKER)
        sem.marked, sem.queue_new = true, true
    end
    redis.call('ZADD', sem.queue, string.format('%.0f', place), member)
    return place
end

-- What is stored of an account.
local function account_text(account)
    return string.format(account.keep > 0 and '%d %d %d %d' or '%d %d %d',
        account.epoch, account.held, account.waiting, account.keep)
end

-- Writes what has changed, in one command or two. Nothing held and nothing
-- waiting: nothing stays. A queue in which nobody waits holds only tickets
-- of the dead.
local function semaphore_write(sem, view)
    if sem.held == 0 and sem.waiting == 0 then
        redis.call('UNLINK', sem.key, sem.queue)
        return
    end

    local set, gone = { 'HSET', sem.key }, { 'HDEL', sem.key }
    local function put(i, field, text)
        if sem.stored[i] ~= text then
            set[#set + 1], set[#set + 2] = field, text
        end
    end

    for session, account in pairs(sem.accounts) do
        if account and account.changed then
            if account.held == 0 and account.waiting == 0 then
                account_keep(sem, account, 0)
                gone[#gone + 1] = session
            else
                put(session == sem.own and 7, session, account_text(account))
            end
        end
    end

    put(1, 'held', string.format('%d', sem.held))
    put(2, 'waiting', string.format('%d', sem.waiting))
    put(3, 'limit', string.format('%d', sem.limit))
    put(4, 'seq', string.format('%.0f', sem.seq))
    put(5, 'seen', string.format('%d', sem.seen))
    local touched = view.stored - (sem.touched or -TOUCH_MS)
    local touch = touched < 0 or touched >= TOUCH_MS
    if touch then put(6, 'touched', string.format('%d', view.stored)) end
    if sem.skip then
        put(8, 'skip', sem.skip)
    elseif sem.stored[8] then
        gone[#gone + 1] = 'skip'
    end
    if sem.keep[1] + sem.keep[2] > 0 then
        put(9, 'keep', string.format('%d %d', sem.keep[1], sem.keep[2]))
    elseif sem.stored[9] then
        gone[#gone + 1] = 'keep'
    end

    if #set > 2 then redis.call(unpack(set)) end
    if #gone > 2 then redis.call(unpack(gone)) end

    if touch then
        redis.call('PEXPIRE', sem.key, EXPIRE_MS)
        sem.queue_new = true
    end
    if sem.waiting == 0 and sem.marked then
        redis.call('UNLINK', sem.queue)
    elseif sem.waiting > 0 and sem.queue_new then
        redis.call('PEXPIRE', sem.queue, EXPIRE_MS)
    end
end
