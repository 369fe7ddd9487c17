-- The path of contended.lua for tickets with keys, where the ticket at the head
-- and that which is acquired are of one class. See fair.lua for what is stored.

-- The ticket at the head, as contended_head(), and its score.
local function keyed_head()
    local page = redis.pcall('ZRANGE', KEYS[3], 0, 1, 'WITHSCORES')
    if page[1] ~= 'queue' then return nil end
    local session, of_epoch, ticket, weight = string.match(page[3] or '',
        '^(%S+) (%d+) (%d+) (%d+)')
    if weight ~= '1' then return nil end
    local held, waiting = contended_account(session, of_epoch)
    if not held then return nil end
    return page[3], session, ticket, of_epoch, held, waiting, page[4]
end

-- V of a class in the end of the head, and where it is: the first place of the
-- class, the end of what is before V, V, the begin of what follows.
local function keyed_virtual(tags, class)
    if not class then return end
    local _, from = string.find(tags, ' ' .. class .. ':', 1, true)
    local V = from and string.match(tags, '^%d+', from + 1)
    if V then return class * 10000000000000, from, V + 0, from + #V + 1 end
end

-- The tag of a new ticket, and F of its key after it; name: "<class> <key>",
-- lowest: the first place of the class. nil: something is unusual.
local function keyed_tag(name, lowest, V, cost, in_force)
    local tag, score = V, redis.pcall('ZSCORE', KEYS[4], name)
    if score then
        -- a half: it has a credit
        if type(score) == 'table' or score % 1 > 0 then return nil end
        tag = math.max(V, score - lowest)
    elseif not redis.call('ZSCORE', KEYS[4], '.') then
        return nil
    end
    local F = tag + math.min(math.max(math.floor(cost * 8 / in_force), 1),
        1000000000)
    if F < 9999999999999 then return tag, F end
end

-- Whether a ticket at this place would be the last one of a full queue. Another
-- one drops that.
local function keyed_refused(place)
    local last = redis.pcall('ZRANGE', KEYS[3], -1, -1, 'WITHSCORES')
    return last[2] and place >= tonumber(last[2])
end

-- Returns the reply, or nil.
local function keyed_sync()
    local held, waiting, stored, seq, seen, touched, tail, tags =
        string.match(semaphore_values[1] or '', '^(%d+) (%d+) (%d+) (%d+)'
            .. '( %d+ )(%d+) 0 0 0 (%-?%d+)( [%d: -]+)$')
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
    if kept < 0 or free > 1 or usual_weight > in_force then return nil end
    local ask, weight, class, queue_limit, cost, key = string.match(
        call_acquires == 1 and ARGV[4] or '',
        '^(%d+) (%d+) (%-?%d) (%d+) (%d+) (%S+)$')
    if call_acquires == 1 and not ask then return nil end

    local member, session, ticket, of_epoch, other_held, other_waiting, score
    if free == 1 then
        member, session, ticket, of_epoch, other_held, other_waiting, score =
            keyed_head()
        if not member then return nil end
        local head_class = math.floor(score / 10000000000000)
        if not ask then
            class = head_class
        elseif head_class ~= tonumber(class) then
            return nil
        end
        waiting = waiting - 1
        if session == ARGV[1] then kept, mine = kept + 1, mine - 1 end
    end
    held = free < 0 and in_force - free or in_force

    local lowest, from, V, last = keyed_virtual(tags, class)
    if score and V then V = math.max(V, score - lowest) end
    if class and not V then return nil end

    local verdict, place, position, name, F = 0, 0, 0, nil, nil
    if ask then
        name = class .. ' ' .. key
        local tag
        tag, F = keyed_tag(name, lowest, V, cost, in_force)
        if not tag then return nil end
        if waiting < tonumber(queue_limit) then
            verdict, place = 2, lowest + tag
            waiting, mine, seq = waiting + 1, mine + 1, math.max(seq, tag)
            if tag == V then V = V + 1 end
        elseif not keyed_refused(lowest + tag) then
            return nil
        end
    end
    if waiting == 0 or kept + mine == 0 or kept > 0 and call_flags % 4 >= 2
        or verdict == 2 and not contended_add(place, ask, weight .. ' ' .. key,
            member)
    then
        return nil
    end
    if verdict == 2 then
        redis.call('ZADD', KEYS[4], string.format('%.0f', lowest + F), name)
        -- a new key is at V, which advances by one with it
        if place % 16 == 0 then V = fair_trim(KEYS[4], class, V, waiting) end
        if place > tonumber(tail) then tail, position = place, waiting end
    end
    contended_write(string.format('%d %d %d %.0f%s%s 0 0 0 %.0f%s',
        held, waiting, in_force, seq, seen, touched, tail, V
            and string.sub(tags, 1, from) .. string.format('%.0f', V)
                .. string.sub(tags, last) or tags),
        string.format('%s %d %d', call_epoch, kept, mine), member, session,
        ticket, of_epoch, other_held, other_waiting, held, in_force)
    if verdict == 2 and position == 0 then
        position = redis.call('ZRANK', KEYS[3], ARGV[1] .. ' ' .. call_epoch
            .. ' ' .. ask .. ' ' .. weight .. ' ' .. key)
    end

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
