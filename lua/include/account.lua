-- Accounts: what one session has of one semaphore. It is the positive record
-- of grants; a ticket that is not in the queue proves nothing. Stored as
-- "epoch held waiting", then " reuse" if not 0, then " parked chunks": tickets
-- of this epoch that are parked, and fields with lists of parked tickets; then,
-- if tickets were dropped from a full queue, " !<epoch> <ticket> ...": those
-- that no reply to the session has named yet. That of a pool ends with its
-- servers, see pool.lua.

-- Whether permits of an account may be idle, kept by the worker for its next
-- request. The head of the semaphore has the numbers of the other two states.
local REUSE = {
    none = 0,
    active = 1,     -- the session keeps permits that become free
    recalled = 2    -- asked to return idle permits, no sync since then
}

-- The name of a session, which no other field of a semaphore looks like.
local SESSION = '^[%w._-]+:%d+:%x+$'

-- An account, parsed; false: there is none.
local function account_parse(text)
    local plain, list, at = text, nil, nil
    if pools then plain, list, at = pools.account(text) end
    -- R11: text of an account
    local epoch, held, waiting, reuse, parked, chunks, dropped = string.match(
        plain or '', '^(%d+) (%d+) (%d+) ?(%d?) ?(%d*) ?(%d*)( ?!?[%d ]*)$')
    if not epoch then return false end
    local account = {
        text = text, epoch = tonumber(epoch), held = tonumber(held),
        dropped = dropped ~= '' and dropped or nil,
        waiting = tonumber(waiting), reuse = tonumber(reuse) or REUSE.none,
        parked = tonumber(parked) or 0, chunks = tonumber(chunks) or 0
    }
    if list then account.list, account.had, account.at = list, list, at end
    return account
end

-- An account as it is stored; nil: it is empty and has no field.
local function account_text(account)
    if account.held == 0 and account.waiting == 0 and account.chunks == 0
        and not account.dropped
    then
        return nil
    end
    -- R11: text of an account
    local text = string.format('%.0f %.0f %.0f', account.epoch, account.held,
        account.waiting)
    if account.list then
        return string.format('%s %d %d %d%s @%s%s', text, account.reuse,
            account.parked, account.chunks, account.dropped or '',
            account.list, pools.servers(account.at))
    end
    if account.dropped then
        return string.format('%s %d %d %d%s', text, account.reuse,
            account.parked, account.chunks, account.dropped)
    end
    if account.chunks > 0 then
        return string.format('%s %d %d %d', text, account.reuse,
            account.parked, account.chunks)
    end
    return account.reuse > 0 and text .. ' ' .. account.reuse or text
end

-- Reads the accounts of these sessions that are not in memory yet.
local function accounts_load(sem, sessions)
    hash_load(sem.key, sessions, sem.accounts, account_parse)
end

-- Sets the reuse of an account, and counts it in the semaphore.
local function account_set_reuse(sem, account, reuse)
    if account.reuse > 0 then
        sem.reuse[account.reuse] = sem.reuse[account.reuse] - 1
    end
    if reuse > 0 then sem.reuse[reuse] = sem.reuse[reuse] + 1 end
    account.reuse = reuse
end

-- Adds to an account and to the sums. A decrease of tickets stops at zero: the
-- account of a dead session may be gone while its tickets are still in the
-- queue. No more permits are released than are held.
local function account_add(sem, account, held, waiting)
    if waiting < -account.waiting then waiting = -account.waiting end
    account.held = account.held + held
    account.waiting = account.waiting + waiting
    sem.held = sem.held + held
    sem.waiting = sem.waiting + waiting
end

-- Adds to the parked tickets of an account and to the sum.
local function account_park(sem, account, parked)
    if parked < -account.parked then parked = -account.parked end
    account.parked = account.parked + parked
    sem.parked = sem.parked + parked
end

-- Dropped tickets, from " !<epoch> <number> ...": a table by number, their
-- epoch, and the numbers as they stand there. nil or false: none.
local function dropped_read(text)
    local epoch, list = string.match(text or '', '^ !(%d+)(.*)$')
    local dropped = {}
    for number in string.gmatch(list or '', '%d+') do
        dropped[number] = true
    end
    return dropped, tonumber(epoch), list
end

-- Takes the dropped tickets of this epoch away: a table by number. Those of
-- another epoch are void.
local function account_dropped(sem, account, epoch)
    local dropped, of_epoch = dropped_read(account.dropped)
    if account.dropped then sem.untold = sem.untold - 1 end
    account.dropped = nil
    return of_epoch == epoch and dropped or {}
end

-- Begins an account of an epoch at zero. Lists of parked tickets stay with the
-- session until its next sync.
local function account_begin(sem, session, epoch)
    local account = sem.accounts[session]
    if account then
        account_set_reuse(sem, account, REUSE.none)
        account_park(sem, account, -account.parked)
        if sem.pool then pools.void(sem, account) end
        account_add(sem, account, -account.held, -account.waiting)
        account.epoch = epoch
    else
        account = { epoch = epoch, held = 0, waiting = 0, reuse = REUSE.none,
            parked = 0, chunks = 0 }
        if sem.pool then account.at = {} end
        sem.accounts[session] = account
    end
    return account
end
