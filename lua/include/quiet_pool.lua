-- The quiet path of a pool: nothing waits, all that is acquired is free at
-- servers of the list, and no server of it has more permits out than its limit.
-- Redis knows the list, and another account keeps it where that of the session
-- ends. What else there is it leaves to the rest of sync, as quiet.lua does.

-- Permits that come and go, at most: each changes two texts. The rest of sync
-- writes these once, of whatever number.
local QUIET_PERMITS = 16

-- Adds to the permits of a server in " <server>=<permits> ...". nil: it has
-- fewer than are taken away.
local function quiet_servers_add(text, server, n)
    local from, to = string.find(text, ' ' .. server .. '=', 1, true)
    if not from then
        return n > 0 and text .. ' ' .. server .. '=' .. n or nil
    end
    local had, last = string.match(text, '^(%d+)()', to + 1)
    if not had or had + n < 0 then return nil end
    return string.sub(text, 1, from - 1)
        .. (had + n > 0 and ' ' .. server .. '=' .. had + n or '')
        .. string.sub(text, last)
end

-- Takes what ARGV[5] releases from the permits of the account and of the pool,
-- by server. nil: something is wrong with it.
local function quiet_servers_release(at, held_at, released)
    local text, servers, sum, length = ARGV[5] or '', {}, 0, -1
    for server, n in string.gmatch(text, '([^ =]+)=([1-9]%d*)') do
        if servers[server] then return nil end
        servers[server] = true
        sum, length = sum + n, length + #server + #n + 2
        at = quiet_servers_add(at, server, -n)
        held_at = at and quiet_servers_add(held_at, server, -n)
        if not held_at then return nil end
    end
    -- as in pool_argument()
    if sum ~= released or length ~= #text and text ~= '' then return nil end
    return at, held_at
end

-- How many accounts have each list, after one more has it, or one less. nil:
-- none would have it.
local function quiet_lists(lists, id, change)
    local before, n, after = string.match(',' .. lists .. ',', '^(.*,' .. id
        .. '=)(%d+)(,.*)$')
    if not n or n + change < 1 then return nil end
    return string.sub(before .. n + change .. after, 2, -2)
end

-- As quiet_sync(). values also has the text of the list.
local function quiet_pool_sync(values, ended, clock, epoch, number, acquires,
    flags, released, weights, in_force)
    local held, stored, seq, seen, touched, rest, turn, lists, held_at =
        string.match(values[1] or '',
            -- R10: head of a semaphore
            '^(%d+) 0 (%d+)( %d+)( %d+ )(%d+)( %d+ %d+ 0 %-?%d+)'
                .. ' /(%d+);;([^;]*);(.*)$')
    if seen ~= ended or clock - touched < 0 or clock - touched >= TOUCH_MS then
        return nil
    end
    local id, stated = string.match(ARGV[4] or '', '^(%x+) ?(.*)$')
    local own, list = values[2], values[3]
    local counted, kept, reuse, of, at = epoch, 0, '0', id, ''
    if own then
        -- R11: text of an account
        counted, kept, reuse, of, at = string.match(own,
            '^(%d+) (%d+) 0 ([012]) 0 0 @(%x+)(.*)$')
    end
    local change = acquires - released
    local total, now = held + change, (kept or 0) + change
    if not list or stated ~= '' and stated ~= list or counted ~= epoch
        or of ~= id or weights ~= acquires or now < acquires or total >= 1e14
    then
        return nil
    end
    at, held_at = quiet_servers_release(at, ' ' .. held_at, released)
    if not at then return nil end

    -- the limits of the servers, and the permits held at each
    local names, most, out, size, all = {}, {}, {}, 0, 0
    in_force = in_force or stored
    for server, n in string.gmatch(held_at, '([^ ,=]+)=(%d+)') do
        out[server] = tonumber(n)
    end
    for server, n in string.gmatch(list, '([^ ,=]+)=(%d+)') do
        -- R16: limit in force
        local limit = math.min(n, in_force)
        if (out[server] or 0) > limit then return nil end
        size, all = size + 1, all + limit
        names[size], most[size] = server, limit
    end
    -- servers that the session cannot use any more
    for server in string.gmatch(at, '([^ ,=]+)=') do
        if (out[server] or 0) - in_force > 0 then return nil end
    end

    local reply = { ARGV[1], epoch + 0, number + 0, 0, total, all, 0, 0, now,
        0, 1, 0, in_force + 0, 0 }
    for i = 15, 12 + 3 * acquires, 3 do
        -- as pool_choose()
        local best, least = nil, 1
        for k = turn, turn + size - 1 do
            local n = k % size + 1
            local has = out[names[n]] or 0
            -- R1: room for a permit
            if has < most[n] and has / most[n] < least then
                best, least = n, has / most[n]
                if has == 0 then break end
            end
        end
        if not best then return nil end
        local server = names[best]
        out[server], turn = (out[server] or 0) + 1, best
        at = quiet_servers_add(at, server, 1)
        held_at = quiet_servers_add(held_at, server, 1)
        reply[i], reply[i + 1], reply[i + 2] = 1, best, 0
    end

    local keeps = flags % 4 >= 2 and now > 0 and '1' or ''
    if total < 1 then
        -- the queue may be left over from a head that was lost
        redis.call('UNLINK', KEYS[2], KEYS[3])
        return reply
    end
    if (own and 1 or 0) ~= (now > 0 and 1 or 0) then
        lists = quiet_lists(lists, id, own and -1 or 1)
        if not lists then return nil end
    end
    -- R11: text of an account
    local account = epoch .. ' ' .. now .. ' 0 ' .. #keeps .. ' 0 0 @' .. id
        .. at
    -- R10: head of a semaphore
    redis.call('HSET', KEYS[2], '.', total .. ' 0 ' .. in_force .. seq .. seen
        .. touched .. quiet_reuse(rest, keeps, reuse == '0' and '' or reuse)
        .. ' /' .. turn .. ';;' .. lists .. ';' .. string.sub(held_at, 2),
        ARGV[1], account)
    if now == 0 then redis.call('HDEL', KEYS[2], ARGV[1]) end
    return reply
end
