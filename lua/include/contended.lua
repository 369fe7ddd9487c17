-- The other path that many calls of sync take, see quiet.lua and lua/README.md:
-- tickets wait, no permit may be idle, at most one permit is free, for a live
-- session at the head, and at most one ticket joins the queue. This is for
-- tickets with keys and without.
--
-- Commands are given text: Redis formats each number with 17 digits, which
-- takes as long as a small command.

-- The account of a session whose ticket of this epoch is at the head: held and
-- waiting, and the seal of its messages. nil: something is unusual.
local function contended_account(session, of_epoch)
    local entry, account = shard_values[2], semaphore_values[2]
    if session ~= ARGV[1] then
        entry = redis.call('HGET', KEYS[1], session)
        account = redis.call('HGET', KEYS[2], session)
    end
    local current, declared, lease, ends, seal = string.match(entry or '',
        '^(%d+) (%d+) (%d+) (%d+) (%x+)')
    -- R11: text of an account
    local counted, held, waiting = string.match(account or '',
        '^(%d+) (%d+) (%d+)$')
    -- an account that was lost, and begun again, does not count its tickets
    -- R5: heartbeat; R6: silent session
    if current ~= of_epoch or declared ~= of_epoch or counted ~= of_epoch
        or waiting == '0'
        or session ~= ARGV[1] and shard_clock - ends + lease
            > 2 * math.min(math.floor(lease / 5), 1000)
    then
        return nil
    end
    return held, waiting, seal
end

-- Adds the ticket that is acquired to the queue; place: text, rest: its weight,
-- and its key if it has one. Returns false if the queue has the wrong type or
-- was lost: the rest of the script finds that out again. seen: its marker was
-- there.
local function contended_add(place, ticket, rest, seen)
    local added
    -- R12: member of the queue
    local member = ARGV[1] .. ' ' .. call_epoch .. ' ' .. ticket .. ' '
        .. rest
    if seen then
        added = redis.call('ZADD', KEYS[3], place, member)
    else
        added = redis.pcall('ZADD', KEYS[3], '-inf', 'queue', place, member)
    end
    if added == 1 then return true end
    if added == 2 then redis.call('UNLINK', KEYS[3]) end
    return false
end

-- Writes head and account, and what the session at the head has been granted;
-- member nil: nothing was.
local function contended_write(head, account, member, session, ticket,
    of_epoch, other_held, other_waiting, seal, held, in_force)
    if member then redis.call('ZREM', KEYS[3], member) end
    if member and session ~= ARGV[1] then
        redis.call('HSET', KEYS[2], '.', head, ARGV[1], account, session,
            -- R11: text of an account
            of_epoch .. string.format(' %d %d', other_held + 1,
                other_waiting - 1))
        -- R13: keys and channels
        redis.pcall('PUBLISH', KEYS[1] .. ':c:' .. session,
            seal .. ' grant ' .. ARGV[3] .. ' ' .. of_epoch
                .. string.format(' %d %d ', held, in_force) .. ticket)
    else
        redis.call('HSET', KEYS[2], '.', head, ARGV[1], account)
    end
end
