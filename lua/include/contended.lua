-- The other path that many calls of sync take, see quiet.lua: tickets wait in
-- order, no permit may be idle, free permits go to sessions at the head that
-- are alive, and what is acquired joins the queue.

-- Tickets granted on this path at most.
local CONTENDED_GRANTS = 16

-- The tickets at the head that free permits are enough for: members, and
-- accounts by session with their new figures. nil: something is unusual.
local function contended_serve(accounts, free, in_force)
    local raw = redis.pcall('ZRANGE', KEYS[3], 0,
        math.min(free, CONTENDED_GRANTS))
    if raw.err or raw[1] ~= 'queue' then return nil end
    local tickets, names = {}, {}
    for i = 2, #raw do
        local session, of_epoch, ticket, weight = string.match(raw[i],
            '^(%S+) (%d+) (%d+) (%d+)$')
        if not session or weight - in_force > 0 then return nil end
        tickets[#tickets + 1] = { session, of_epoch, ticket, weight, raw[i] }
        names[#names + 1] = session
    end
    if #names == 0 then return nil end
    local entries = redis.call('HMGET', KEYS[1], unpack(names))
    local texts = redis.call('HMGET', KEYS[2], unpack(names))
    local members = {}
    for i, ticket in ipairs(tickets) do
        local session = ticket[1]
        local of_epoch, declared, lease, ends = string.match(entries[i] or '',
            '^(%d+) (%d+) (%d+) (%d+) ')
        if of_epoch ~= ticket[2] or declared ~= of_epoch or session ~= ARGV[1]
            and clock - (ends - lease)
                > 2 * math.min(math.floor(lease / 5), 1000)
        then
            return nil
        end
        local account = accounts[session]
        if not account then
            local held, waiting = string.match(texts[i] or '',
                '^' .. of_epoch .. ' (%d+) (%d+)$')
            if not held then return nil end
            account = { of_epoch, held, waiting, {} }
            accounts[session] = account
        end
        if ticket[4] - free > 0 then return members, free end
        free = free - ticket[4]
        account[2], account[3] = account[2] + ticket[4], account[3] - 1
        account[4][#account[4] + 1] = ticket[3]
        members[#members + 1] = ticket[5]
        if free == 0 then return members, free end
    end
    return nil
end

-- Adds what is acquired to the queue. Returns the results, the tickets added
-- and the last sequence number; nil: something is unusual.
local function contended_acquire(waiting, seq, tail, in_force)
    local results, added, place = {}, { 'ZADD', KEYS[3], '-inf', 'queue' }, tail
    for i = 1, #asks, 4 do
        if asks[i + 1] > in_force then return nil end
        if waiting < tonumber(asks[i + 3]) then
            seq, waiting = seq + 1, waiting + 1
            place = asks[i + 2] * 10000000000000 + seq
            if place <= tail then return nil end
            tail = place
            added[#added + 1] = string.format('%d', place)
            added[#added + 1] = string.format('%s %s %s %d', ARGV[1],
                epoch, asks[i], asks[i + 1])
            results[#results + 1] = 2
            results[#results + 1] = place
            results[#results + 1] = waiting
        else
            results[#results + 1] = 0
            results[#results + 1] = 0
            results[#results + 1] = 0
        end
    end
    return results, added, seq, tail
end

-- Writes queue and semaphore. Returns nil if the queue has the wrong type or
-- was lost: the rest of the script finds that out again.
local function contended_write(accounts, members, added, head)
    if #added > 4 then
        local n = redis.pcall(unpack(added))
        if type(n) == 'table' then return nil end
        if n > #added / 2 - 2 then
            redis.call('UNLINK', KEYS[3])
            return nil
        end
    end
    if #members > 0 then redis.call('ZREM', KEYS[3], unpack(members)) end
    local set = { 'HSET', KEYS[2], '.', head }
    for session, account in pairs(accounts) do
        set[#set + 1] = session
        set[#set + 1] = string.format('%s %d %d', account[1], account[2],
            account[3])
    end
    redis.call(unpack(set))
    return true
end

-- Returns the reply, or nil.
local function contended_sync()
    local held, waiting, stored, seq, seen, touched, tail = string.match(
        semaphore_values[1] or '',
        '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) 0 0 0 (%-?%d+)$')
    if seen ~= ended or waiting == '0' or not quiet_fresh(touched) then
        return nil
    end
    local kept, mine = 0, 0
    if semaphore_values[2] then
        kept, mine = string.match(semaphore_values[2],
            '^' .. epoch .. ' (%d+) (%d+)$')
    end
    if not kept or kept - released < 0 then return nil end
    local in_force = quiet_limit(stored)
    local own = { epoch, kept - released, mine, {} }
    local accounts, members = { [ARGV[1]] = own }, {}
    held = held - released
    if held < in_force then
        local free
        members, free = contended_serve(accounts, in_force - held, in_force)
        if not members or free > 0 and #asks > 0 then return nil end
        held = in_force - free
    end
    waiting = waiting - #members
    local results, added
    results, added, seq, tail = contended_acquire(waiting, tonumber(seq),
        tonumber(tail), in_force)
    if not results then return nil end
    local queued = #added / 2 - 2
    waiting, own[3] = waiting + queued, own[3] + queued
    if waiting == 0 or own[2] + own[3] == 0
        or own[2] > 0 and flags % 4 >= 2
        or not contended_write(accounts, members, added, string.format(
            '%d %d %d %d %s %s 0 0 0 %d', held, waiting, in_force,
            seq, seen, touched, tail))
    then
        return nil
    end

    for session, account in pairs(accounts) do
        if account ~= own then
            redis.pcall('PUBLISH', KEYS[1] .. ':c:' .. session, string.format(
                'grant %s %s %d %d %s', ARGV[3], account[1], held, in_force,
                table.concat(account[4], ' ')))
        end
    end
    for _, ticket in ipairs(own[4]) do
        results[#results + 1] = tonumber(ticket)
    end
    return { ARGV[1], tonumber(epoch), tonumber(number), 0, held, in_force,
        waiting, 0, own[2], own[3], 0, 0, unpack(results) }
end

if asks then
    local reply = contended_sync()
    if reply then return reply end
end
