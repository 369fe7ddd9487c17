-- The other path that many calls of sync take, see quiet.lua: tickets wait in
-- order, no permit may be idle, at most one permit is free, for a session at
-- the head that is alive, and at most one ticket joins the queue.

-- The account of a session whose ticket of this epoch is at the head: held and
-- waiting. nil: something is unusual.
local function contended_account(session, of_epoch)
    local entry, account = shard_values[2], semaphore_values[2]
    if session ~= ARGV[1] then
        entry = redis.call('HGET', KEYS[1], session)
        account = redis.call('HGET', KEYS[2], session)
    end
    local current, declared, lease, ends = string.match(entry or '',
        '^(%d+) (%d+) (%d+) (%d+) ')
    local counted, held, waiting = string.match(account or '',
        '^(%d+) (%d+) (%d+)$')
    -- an account that was lost, and begun again, does not count its tickets
    if current ~= of_epoch or declared ~= of_epoch or counted ~= of_epoch
        or waiting == '0'
        or session ~= ARGV[1] and shard_clock - ends + lease
            > 2 * math.min(math.floor(lease / 5), 1000)
    then
        return nil
    end
    return held, waiting
end

-- The ticket at the head, which takes the only free permit: member, session,
-- number, and the session's account: epoch, held, waiting. nil: something is
-- unusual.
local function contended_head()
    local page = redis.pcall('ZRANGE', KEYS[3], 0, 1)
    if page[1] ~= 'queue' then return nil end
    local session, of_epoch, ticket, weight = string.match(page[2] or '',
        '^(%S+) (%d+) (%d+) (%d+)$')
    if weight ~= '1' then return nil end
    local held, waiting = contended_account(session, of_epoch)
    if not held then return nil end
    return page[2], session, ticket, of_epoch, held, waiting
end

-- Adds the ticket that is acquired to the queue; rest: its weight, and its key
-- if it has one. Returns false if the queue has the wrong type or was lost: the
-- rest of the script finds that out again. seen: its marker was there.
local function contended_add(place, ticket, rest, seen)
    local added
    place = string.format('%.0f', place)
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
    of_epoch, other_held, other_waiting, held, in_force)
    if member then redis.call('ZREM', KEYS[3], member) end
    if member and session ~= ARGV[1] then
        redis.call('HSET', KEYS[2], '.', head, ARGV[1], account, session,
            string.format('%s %d %d', of_epoch, other_held + 1,
                other_waiting - 1))
        redis.pcall('PUBLISH', KEYS[1] .. ':c:' .. session, string.format(
            'grant %s %s %d %d %s', ARGV[3], of_epoch, held, in_force, ticket))
    else
        redis.call('HSET', KEYS[2], '.', head, ARGV[1], account)
    end
end

-- Returns the reply, or nil.
local function contended_sync()
    local held, waiting, stored, seq, seen, touched, tail = string.match(
        semaphore_values[1] or '',
        '^(%d+) (%d+) (%d+) (%d+)( %d+ )(%d+) 0 0 0 (%-?%d+)$')
    local counted, kept, mine = string.match(semaphore_values[2] or '',
        '^(%d+) (%d+) (%d+)$')
    if seen ~= shard_ended or waiting == '0' or counted ~= call_epoch
        or shard_clock - touched < 0 or shard_clock - touched >= TOUCH_MS
    then
        return nil
    end
    local in_force = tonumber(usual_limit or stored)
    kept, mine, waiting = kept - call_released, mine + 0, waiting + 0
    local free = in_force - held + call_released
    if kept < 0 or free > 1 then return nil end

    local member, session, ticket, of_epoch, other_held, other_waiting
    if free == 1 then
        member, session, ticket, of_epoch, other_held, other_waiting =
            contended_head()
        if not member then return nil end
        waiting = waiting - 1
        if session == ARGV[1] then kept, mine = kept + 1, mine - 1 end
    end
    held = free < 0 and in_force - free or in_force

    local verdict, place, position = 0, 0, 0
    local ask, weight, class, queue_limit = string.match(
        call_acquires == 1 and ARGV[4] or '', '^(%d+) (%d+) (%-?%d) (%d+)$')
    if ask and waiting < tonumber(queue_limit) then
        seq, waiting, mine = seq + 1, waiting + 1, mine + 1
        verdict, position = 2, waiting
        place = class * 10000000000000 + seq
        tail = tail + 0
    end
    if usual_weight > in_force or verdict == 2 and place <= tail
        or waiting == 0 or kept + mine == 0 or kept > 0 and call_flags % 4 >= 2
        or verdict == 2 and not contended_add(place, ask, weight, member)
    then
        return nil
    end
    if verdict == 2 then tail = place end
    local head = string.format('%d %d %d %s%s%s 0 0 0 %s', held, waiting,
        in_force, seq, seen, touched, tail)
    local account = string.format('%s %d %d', call_epoch, kept, mine)
    contended_write(head, account, member, session, ticket, of_epoch,
        other_held, other_waiting, held, in_force)

    local reply = { ARGV[1], tonumber(call_epoch), tonumber(call_number), 0,
        held, in_force, waiting, 0, kept, mine, 0, 0 }
    if ask then
        reply[13], reply[14], reply[15] = verdict, place, position
    end
    if member and session == ARGV[1] then
        reply[#reply + 1] = tonumber(ticket)
    end
    return reply
end
