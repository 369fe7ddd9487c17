-- The contended path for tickets with keys, where the ticket at the head and
-- that which is acquired are of one class. See fair.lua for what is stored.
-- Places and tags are written by "%.0f": with 32 bits "%d" is too short.

-- The ticket at the head, as contended_head(), and its score.
local function keyed_head()
    local page = redis.pcall('ZRANGE', KEYS[3], '0', '1', 'WITHSCORES')
    if page[1] ~= 'queue' then return nil end
    -- R12: member of the queue
    local session, of_epoch, ticket, weight = string.match(page[3] or '',
        '^(%S+) (%d+) (%d+) (%d+)')
    if weight ~= '1' then return nil end
    local held, waiting, seal = contended_account(session, of_epoch)
    if not held then return nil end
    return page[3], session, ticket, of_epoch, held, waiting, seal, page[4] + 0
end

-- The increment divided by parts, or by least where these are fewer.
local function keyed_step(increment, parts, least)
    local step = increment / (parts < least and least or parts)
    return step < 1 and 1 or step - step % 1
end

-- The place of a new ticket, the same as text, the score of F of its key and V
-- after it; where the key is new also the score of the tag of all new keys.
-- name: "<class> <key>", lowest: the first place of the class. nil: something
-- is unusual.
local function keyed_place(name, lowest, V, cost, in_force, new, waiting)
    -- R7: queue order; R8: start tag
    local place, text = lowest + V, nil
    local score = redis.pcall('ZSCORE', KEYS[4], name)
    local known = score
    if not score then
        local scores = redis.call('ZMSCORE', KEYS[4], '.', new)
        if not scores[1] then return nil end
        score = scores[2]
    elseif score.err then
        return nil
    end
    if score then
        local paid = score + 0
        -- a half: it has a credit
        if paid % 1 > 0 then return nil end
        if paid > place then place, text = paid, score end
    end
    local increment, tag = cost * 8 / in_force, place - lowest
    if increment > 1000000000 then increment = 1000000000 end
    if tag > 5000000000000 then
        increment = increment * (2 - tag / 5000000000000)
    end
    increment = increment < 1 and 1 or increment - increment % 1
    local F, N = place + increment, nil
    if not known then
        N = place + 1 + keyed_step(increment,
            waiting / math.max(in_force / 4, 4), 4)
    end
    if tag == V then V = V + keyed_step(increment, waiting, 16) end
    if F - lowest < 9999999999999 then
        return place, text or string.format('%.0f', place), F, V, N
    end
end

-- Returns the reply, or nil. Parameters as of quiet_sync(), and the ticket that
-- is acquired.
local function keyed_sync(values, ended, clock, epoch, acquires, flags,
    released, weights, limit, ask, weight, class, queue_limit, cost, key)
    -- R10: head of a semaphore
    local held, waiting, stored, seq, seen, touched, tail, tags, V, others =
        string.match(values[1] or '', '^(%d+) (%d+) (%d+) (%d+)( %d+ )(%d+) '
            .. '0 0 0 (%-?%d+)( %-?%d:)(%d+)([%d: !-]*)$')
    -- R11: text of an account
    local counted, kept, mine = string.match(values[2] or '',
        '^(%d+) (%d+) (%d+)$')
    local untouched = clock - (touched or 0)
    if seen ~= ended or waiting == '0' or counted ~= epoch
        or acquires == 1 and not key or untouched < 0 or untouched >= TOUCH_MS
    then
        return nil
    end
    local in_force = (limit or stored) + 0
    kept, mine, waiting = kept - released, mine + 0, waiting + 0
    -- R1: room for a permit
    local free = in_force - held + released
    if kept < 0 or free > 1 or weights > in_force then return nil end

    local member, session, ticket, of_epoch, other_held, other_waiting, seal,
        score
    if free == 1 then
        member, session, ticket, of_epoch, other_held, other_waiting, seal,
            score = keyed_head()
        if not member then return nil end
        class = class or math.floor(score / 10000000000000)
        waiting = waiting - 1
        if session == ARGV[1] then kept, mine = kept + 1, mine - 1 end
    end
    held = free < 0 and in_force - free or in_force

    -- the tags begin with those of the lowest class
    local own, lowest = class and ' ' .. class .. ':', nil
    if own and own ~= tags then
        local before, of_class, after = string.match(others, '^(.*'
            .. string.gsub(own, '%-', '%%-') .. ')(%d+)(.*)$')
        if not before then return nil end
        tags, V, others = tags .. V .. before, of_class, after
    end
    if own then lowest, V = class * 10000000000000, V + 0 end
    if score then
        local tag = score - lowest
        if tag < 0 or tag >= 10000000000000 then return nil end
        if tag > V then V = tag end
    end

    local verdict, place, position, text, name, F, advanced, N = 0, 0, 0
    if ask then
        name = class .. ' ' .. key
        place, text, F, advanced, N = keyed_place(name, lowest, V, cost,
            in_force, class .. ' *', waiting)
        if not place then return nil end
        -- R2: full queue
        if waiting - queue_limit < 0 then
            local tag = place - lowest
            -- R15: codes in replies
            verdict, waiting, mine, seq = 2, waiting + 1, mine + 1, seq + 0
            if tag > seq then seq = tag end
            V = advanced
        else
            -- the last one of a full queue; another one drops that
            -- R9: drop from a full queue
            local last = redis.pcall('ZRANGE', KEYS[3], '-1', '-1',
                'WITHSCORES')
            if not last[2] or place - last[2] < 0 then return nil end
            place = 0
        end
    end
    if waiting == 0 or kept + mine == 0 or kept > 0 and flags % 4 >= 2
        or verdict == 2 and not contended_add(text, ask, weight .. ' ' .. key,
            member)
    then
        return nil
    end
    if verdict == 2 then
        if N then
            redis.call('ZADD', KEYS[4], string.format('%.0f', F), name,
                string.format('%.0f', N), class .. ' *')
        else
            redis.call('ZADD', KEYS[4], string.format('%.0f', F), name)
        end
        -- and now and then, for a queue that gets shorter: not always, as all
        -- places of a key may have the same remainder
        if N or place % 16 == 0 then
            V = fair_trim(KEYS[4], class, V, waiting)
        end
        if place - tail > 0 then tail, position = place, waiting end
    end
    -- R10: head of a semaphore
    local head = string.format('%d %d %d %.0f' .. seen .. touched
        .. ' 0 0 0 %.0f' .. tags .. '%.0f' .. others, held, waiting, in_force,
        seq, tail, V)
    -- R11: text of an account
    local counts = epoch .. string.format(' %d %d', kept, mine)
    contended_write(head, counts, member, session, ticket, of_epoch,
        other_held, other_waiting, seal, held, in_force)
    if verdict == 2 and position == 0 then
        position = redis.call('ZRANK', KEYS[3], ARGV[1] .. ' ' .. epoch
            .. ' ' .. ask .. ' ' .. weight .. ' ' .. key)
    end

    local reply = { ARGV[1], epoch + 0, call_number + 0, 0, held, in_force,
        waiting, 0, kept, mine, 0, 0 }
    if ask then
        reply[13], reply[14], reply[15] = verdict, place, position
    end
    if member and session == ARGV[1] then
        reply[#reply + 1] = ticket + 0
    end
    return reply
end
