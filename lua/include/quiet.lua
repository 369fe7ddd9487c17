-- The quiet path: nothing waits, all that is acquired is free, and nothing else
-- has to be read. Most calls end here, before anything else of sync is even
-- defined. Whatever the path does not expect it leaves to the rest of sync, and
-- does not write before it is certain to succeed; its rules are those of the
-- rest. lua/README.md has the conditions of all short paths as a table.
--
-- All that a function needs are its parameters: variables shared by functions
-- would cost each call more. Values are strings as read, where no number is
-- named.

-- If the session is registered and the shard understood: " <ended> ", and the
-- clock. values: head, and entry of the session.
local function usual_shard(values, gen, epoch)
    local current, clock, ends, ended = string.match(values[1] or '',
        '^3 (%d+) (%d+) %d+ (%d+)( %d+ )')
    if current == gen and (ends == '0' or ends - clock <= 0)
        and string.match(values[2] or '', '^%d+') == epoch
    then
        return ended, clock
    end
end

-- Values of an acquire with a cost and a key, see sync.
local function usual_keyed(text)
    local ticket, weight, class, queue_limit, cost, key = string.match(
        text or '',
        -- R14: encoded name
        '^([1-9]%d*) (%d+) (%-?%d) (%d+) ([1-9]%d*) ([%w._:%%~-]+)$')
    if ticket and cost - 1e18 <= 0 and #key <= 200 then
        return ticket, weight, class, queue_limit, cost, key
    end
end

-- Whether the changes are understood: the sum of the acquired
-- weights (a number), and the limit in force; no limit: the stored one. The
-- number of acquires, flags and released are numbers; order and lowest: fields
-- of the shard, lowest only for a literal limit; keyed: acquires may have a
-- key. Then come the values of the last acquire, of which only a keyed one has
-- queue limit, cost and key. Flags above 15: a pool.
local function usual_changes(acquires, limit, flags, released, order, lowest,
    keyed)
    -- numbers are joined to text below, which is exact up to 14 digits
    if order or #limit > 14 or flags > 31 or released >= 1e14 then
        return nil
    end
    local weights, ticket, weight, class, queue_limit, cost, key = 0
    local first = flags > 15 and 6 or 4
    for i = first, first + acquires - 1 do
        if keyed then
            ticket, weight, class, queue_limit, cost, key =
                usual_keyed(ARGV[i])
        end
        if not key then
            ticket, weight, class = string.match(ARGV[i] or '',
                '^([1-9]%d*) (%d+) (%-?%d) %d+$')
        end
        if not ticket or #ticket > 15 or weight == '0' or class == '8'
            or class == '9' or class == '-9'
        then
            return nil
        end
        weights = weights + weight
    end
    -- R16: limit in force
    local in_force = lowest and string.match(lowest, '^%d+')
    if in_force then
        -- a message about another node is to be sent
        if flags % 16 >= 8 and in_force - limit < 0 then return nil end
    elseif acquires > 0 and flags % 2 == 1 then
        in_force = limit
    end
    return weights, in_force, ticket, weight, class, queue_limit, cost, key
end

-- The head of a semaphore that begins, from seq to touched, with places at the
-- clock; and the rest of it.
local function quiet_begin(shard)
    -- accounts of another layout may be left over
    redis.call('UNLINK', KEYS[2])
    local t = redis.call('TIME')
    local clock, wall, ended, lease = string.match(shard[1],
        '^%d+ %d+ (%d+) (%d+) %d+( %d+ ).* (%d+)$')
    -- R4: step of the clock
    local passed = t[1] * 1000 + math.floor(t[2] / 1000) - wall
    return string.format(' %.0f%s%s', clock
        + math.min(math.max(passed, 0), math.floor(lease / 4)), ended, clock),
        ' 0 0 0 0'
end

-- The rest of the head after the reuse of an account has changed.
local function quiet_reuse(rest, keeps, reuse)
    if keeps == reuse then return rest end
    local active, recalled, last = string.match(rest,
        '^ (%d+) (%d+)( 0 %-?%d+)$')
    return ' ' .. active + #keeps - (reuse == '1' and 1 or 0) .. ' '
        .. recalled - (reuse == '2' and 1 or 0) .. last
end

-- Executes the changes. Returns the reply; nil: something is unusual. shard and
-- values: what was read of the shard, and head and account of the semaphore.
local function quiet_sync(shard, values, ended, clock, epoch, number, acquires,
    limit, flags, released, weights, in_force)
    local head = values[1]
    local own = head and values[2]
    local held, stored, seq, seen, touched, rest = 0, limit, nil, nil, nil, nil
    if head then
        held, stored, seq, seen, touched, rest = string.match(head,
            -- R10: head of a semaphore
            '^(%d+) 0 (%d+)( %d+)( %d+ )(%d+)( %d+ %d+ 0 %-?%d+)$')
        if seen ~= ended or clock - touched < 0 or clock - touched >= TOUCH_MS
        then
            return nil
        end
    end
    local counted, kept, reuse = epoch, 0, ''
    if own then
        -- R11: text of an account
        counted, kept, reuse = string.match(own, '^(%d+) (%d+) 0 ?([12]?)$')
    end
    if counted ~= epoch then return nil end
    in_force = in_force or stored
    local change = weights - released
    local total, now, most = held + change, kept + change, tonumber(in_force)
    -- R1: room for a permit
    if now < weights or total > most or total >= 1e14 then return nil end

    local keeps = now > 0 and flags % 4 >= 2 and '1' or ''
    if total == 0 then
        -- the queue may be left over from a head that was lost
        redis.call('UNLINK', KEYS[2], KEYS[3])
    elseif change ~= 0 or in_force ~= stored or keeps ~= reuse then
        local first = head and seq .. seen .. touched
        if not head then first, rest = quiet_begin(shard) end
        -- R11: text of an account
        local account = epoch .. ' ' .. now .. (keeps == '1' and ' 0 1'
            or ' 0')
        -- R10: head of a semaphore
        redis.call('HSET', KEYS[2], '.', total .. ' 0 ' .. in_force .. first
            .. quiet_reuse(rest, keeps, reuse), ARGV[1], account)
        if now == 0 then redis.call('HDEL', KEYS[2], ARGV[1]) end
        if not head then redis.call('PEXPIRE', KEYS[2], EXPIRE_MS) end
    end

    if acquires == 0 then
        return { ARGV[1], epoch + 0, number + 0, 0, total, most, 0, 0, now, 0,
            1, 0 }
    end
    local reply = { ARGV[1], epoch + 0, number + 0, 0, total, most, 0, 0, now,
        0, 1, 0, 1, 0, 0 }
    for i = 16, 12 + 3 * acquires, 3 do
        reply[i], reply[i + 1], reply[i + 2] = 1, 0, 0
    end
    return reply
end
