-- Recalls idle permits of other sessions while tickets wait, or more permits
-- are held than the limit in force allows: from the largest holders, until
-- their permits cover what is wanted. While the semaphore is paused, and of a
-- pool, it recalls all of them. A session is recalled once until its next sync,
-- and again by each call with checks: the message may be lost. What a session
-- holds may be in use: one that was recalled and had nothing idle recalls two
-- others at least, where there are many, so that their number doubles with each
-- round trip. A session that has stopped recalls none: where one that was
-- recalled has not replied, a call with checks counts nothing of what silent
-- sessions hold, of some, and goes on to the others.

-- Accounts read by one call. Of more accounts, some are read, and
-- others by the next call; the field "recall" has the cursor.
local RECALL_ACCOUNTS = 24
-- Sessions that are recalled one after the other.
local RECALL_FEW = 8

-- Returns the sessions to notify. waiting: the weight that waits, as far as
-- this call knows it; again: also those that were recalled before, of the
-- accounts that this call reads; none: this session was, and had nothing idle.
local function recall(sem, view, waiting, again, none)
    local wanted, own = math.huge, sem.accounts[sem.session]
    if not view.paused then
        wanted = math.max(view.over or sem.held - view.limit, 0)
            + (sem.waiting > sem.parked and waiting or 0)
        -- any of them may be at the server that is wanted
        if sem.pool and wanted > 0 then wanted = math.huge end
    end
    -- of this session; others may have idle permits if more are active
    local mine = own and own.reuse == REUSE.active and 1 or 0
    again = again and sem.reuse[REUSE.recalled] > 0
    if wanted <= 0 or not (again or sem.reuse[REUSE.active] > mine) then
        return {}
    end

    -- The sessions with this reuse, the largest holder first.
    local function holders_of(reuse)
        local holders = {}
        for session, account in pairs(sem.accounts) do
            if account and account.reuse == reuse and session ~= sem.session
            then
                holders[#holders + 1] = session
            end
        end
        table.sort(holders, function(a, b)
            local x, y = sem.accounts[a].held, sem.accounts[b].held
            return x > y or x == y and a < b
        end)
        return holders
    end

    -- the accounts that may have idle permits, or some of them
    local fields
    local all = redis.call('HLEN', sem.key) <= 2 * RECALL_ACCOUNTS
    if all then
        fields = redis.call('HGETALL', sem.key)
    else
        local cursor = redis.call('HGET', sem.key, 'recall') or '0'
        local page = redis.call('HSCAN', sem.key, cursor, 'COUNT',
            RECALL_ACCOUNTS)
        sem.set[#sem.set + 1], sem.set[#sem.set + 2] = 'recall', page[1]
        fields = page[2]
    end
    for i = 1, #fields, 2 do
        if sem.accounts[fields[i]] == nil and string.find(fields[i], SESSION)
        then
            sem.accounts[fields[i]] = account_parse(fields[i + 1])
        end
    end

    local active = sem.reuse[REUSE.active]
    local least = none and active > RECALL_FEW and 2 or 1
    local holders = holders_of(REUSE.active)
    local notified = again and holders_of(REUSE.recalled) or {}
    if again then
        view_load(view, { unpack(holders, 1,
            math.min(#holders, RECALL_ACCOUNTS)) })
    end
    for n, session in ipairs(holders) do
        if wanted <= 0 and n > least then return notified end
        local account, entry = sem.accounts[session], view.entries[session]
        if not entry or not entry.silent then wanted = wanted - account.held end
        account_set_reuse(sem, account, REUSE.recalled)
        notified[#notified + 1] = session
    end
    if not all and sem.reuse[REUSE.active] > mine
        and (wanted == math.huge or sem.reuse[REUSE.active] == active)
    then
        view.more = true
    end
    return notified
end
