-- The accounts of sessions and epochs that have ended, in one semaphore.

-- @include "include/ended.lua"

-- The account is void: its session or epoch has ended. Returns false when
-- tickets that it has parked are left for another call.
local function semaphore_void(sem, view, session, account)
    account_begin(sem, session, account.epoch)
    account_dropped(sem, account, 0)
    while account.chunks > 0 and view.steps > 0 do
        for _, member in ipairs(queue_unlist(sem, view, session, account)) do
            sem.removed[#sem.removed + 1] = member
        end
    end
    if account.chunks > 0 then return false end
    -- its tickets that this call drops are not noted for it any more
    account.epoch = 0
    return true
end

-- Drops the accounts of these sessions that are void. Returns the index of the
-- first one that is left for another call, or nil.
local function semaphore_drop(sem, view, sessions)
    accounts_load(sem, sessions)
    view_load(view, sessions)
    for i, session in ipairs(sessions) do
        local account, entry = sem.accounts[session], view.entries[session]
        if account and (not entry or account.epoch < entry.declared) then
            if not entry then view.reclaimed = view.reclaimed + account.held end
            if not semaphore_void(sem, view, session, account) then
                return i
            end
        end
    end
end

-- The log does not go back far enough: reads all accounts, some per call.
-- The field "scan" has the cursor, the number of the ended at its begin, and
-- the term of the state: another process has another order of fields.
local function semaphore_scan(sem, view)
    local term = redis.call('HGET', view.key, 'term') or '0'
    local cursor, ended, begun = string.match(
        redis.call('HGET', sem.key, 'scan') or '', '^(%d+) (%d+) (%S+)$')
    if begun ~= term or tonumber(ended) > view.ended then cursor = nil end
    if not cursor then cursor, ended = '0', view.ended end
    local page = redis.call('HSCAN', sem.key, cursor, 'COUNT', 50)
    local sessions = {}
    for i = 1, #page[2], 2 do
        local field = page[2][i]
        if string.find(field, SESSION) then sessions[#sessions + 1] = field end
    end
    -- of a small hash a page is all of it; one step is for a list of tickets
    view.steps = math.max(view.steps - #sessions, 1)
    view.more = true
    if semaphore_drop(sem, view, sessions) then return end
    if page[1] == '0' then
        sem.seen = tonumber(ended)
        sem.gone[#sem.gone + 1] = 'scan'
        view.more = sem.seen ~= view.ended
    else
        sem.set[#sem.set + 1] = 'scan'
        sem.set[#sem.set + 1] = string.format('%s %.0f %s', page[1], ended,
            term)
    end
end

-- Drops the accounts of sessions that have ended since this semaphore last
-- looked, some per call.
local function semaphore_drop_ended(sem, view)
    local behind = view.ended - sem.seen
    if behind == 0 then return end
    if behind < 0 or behind > LOGGED then return semaphore_scan(sem, view) end
    local fields = {}
    for n = 1, math.min(behind, view.steps / 2) do
        fields[n] = string.format('ended:%.0f', sem.seen + n)
    end
    local sessions = redis.call('HMGET', view.key, unpack(fields))
    for n = 1, #fields do sessions[n] = sessions[n] or '' end
    view.steps = view.steps - #fields
    local left = semaphore_drop(sem, view, sessions)
    sem.seen = sem.seen + (left and left - 1 or #fields)
    if sem.seen ~= view.ended then view.more = true end
end
