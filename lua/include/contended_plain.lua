-- The contended path for tickets without keys.

-- The ticket at the head, which takes the only free permit: member, session,
-- number, the session's account: epoch, held, waiting, and its seal. nil:
-- something is unusual.
local function contended_head()
    local page = redis.pcall('ZRANGE', KEYS[3], '0', '1')
    if page[1] ~= 'queue' then return nil end
    -- R12: member of the queue
    local session, of_epoch, ticket, weight = string.match(page[2] or '',
        '^(%S+) (%d+) (%d+) (%d+)$')
    if weight ~= '1' then return nil end
    local held, waiting, seal = contended_account(session, of_epoch)
    if not held then return nil end
    return page[2], session, ticket, of_epoch, held, waiting, seal
end

-- Returns the reply, or nil.
local function contended_sync()
    -- R10: head of a semaphore; R11: text of an account
    local held, waiting, stored, seq, seen, touched, tail = string.match(
        semaphore_values[1] or '',
        '^(%d+) (%d+) (%d+) (%d+)( %d+ )(%d+) 0 0 0 (%-?%d+)$')
    local counted, kept, mine = string.match(semaphore_values[2] or '',
        '^(%d+) (%d+) (%d+)$')
    local untouched = shard_clock - (touched or 0)
    if seen ~= shard_ended or waiting == '0' or counted ~= call_epoch
        or untouched < 0 or untouched >= TOUCH_MS
    then
        return nil
    end
    local in_force = (usual_limit or stored) + 0
    kept, mine, waiting = kept - call_released, mine + 0, waiting + 0
    -- R1: room for a permit
    local free = in_force - held + call_released
    if kept < 0 or free > 1 then return nil end

    local member, session, ticket, of_epoch, other_held, other_waiting, seal
    if free == 1 then
        member, session, ticket, of_epoch, other_held, other_waiting, seal =
            contended_head()
        if not member then return nil end
        waiting = waiting - 1
        if session == ARGV[1] then kept, mine = kept + 1, mine - 1 end
    end
    held = free < 0 and in_force - free or in_force

    local verdict, place, position = 0, 0, 0
    local ask, weight, class, queue_limit = string.match(
        call_acquires == 1 and ARGV[4] or '', '^(%d+) (%d+) (%-?%d) (%d+)$')
    -- R2: full queue
    if ask and waiting - queue_limit < 0 then
        seq, waiting, mine = seq + 1, waiting + 1, mine + 1
        -- R15: codes in replies
        verdict, position = 2, waiting
        -- R7: queue order
        place = class * 10000000000000 + seq
        tail = tail + 0
    end
    if usual_weight > in_force or verdict == 2 and place <= tail
        or waiting == 0 or kept + mine == 0 or kept > 0 and call_flags % 4 >= 2
        or verdict == 2 and not contended_add(string.format('%.0f', place),
            ask, weight, member)
    then
        return nil
    end
    if verdict == 2 then tail = place end
    -- what was read is digits and blanks
    -- R10: head of a semaphore
    local head = string.format('%d %d %d %.0f' .. seen .. touched
        .. ' 0 0 0 %.0f', held, waiting, in_force, seq, tail)
    -- R11: text of an account
    local account = call_epoch .. string.format(' %d %d', kept, mine)
    contended_write(head, account, member, session, ticket, of_epoch,
        other_held, other_waiting, seal, held, in_force)

    local reply = { ARGV[1], call_epoch + 0, call_number + 0, 0, held,
        in_force, waiting, 0, kept, mine, 0, 0 }
    if ask then
        reply[13], reply[14], reply[15] = verdict, place, position
    end
    if member and session == ARGV[1] then
        reply[#reply + 1] = tonumber(ticket)
    end
    return reply
end
