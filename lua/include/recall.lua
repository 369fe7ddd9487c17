-- Recalls idle permits of other sessions while tickets wait: from the largest
-- holders, until their permits cover what is wanted. A session is recalled
-- once until its next sync.

-- Accounts looked at by one call. Of more accounts, some are looked at, and
-- others by the next call; the field "recall" has the cursor.
local RECALL_ACCOUNTS = 24

-- Reads accounts that may have idle permits. Returns whether these are all.
local function recall_accounts(sem)
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
    return all
end

-- The sessions to recall, the largest holder first.
local function recall_holders(sem)
    local holders = {}
    for session, account in pairs(sem.accounts) do
        if account and account.reuse == REUSE.active
            and session ~= sem.session
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

-- Returns the sessions to notify. wanted: the weight that waits, as far as this
-- call knows it.
local function recall(sem, view, wanted)
    local notified = {}
    if sem.waiting == sem.parked or view.paused or sem.reuse[REUSE.active]
        == (sem.accounts[sem.session].reuse == REUSE.active and 1 or 0)
    then
        return notified
    end
    local all = recall_accounts(sem)
    for _, session in ipairs(recall_holders(sem)) do
        if wanted <= 0 then return notified end
        local account = sem.accounts[session]
        wanted = wanted - account.held
        account_set_reuse(sem, account, REUSE.recalled)
        notified[#notified + 1] = session
    end
    if not all and #notified == 0 then view.more = true end
    return notified
end
