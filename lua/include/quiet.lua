-- The quiet path of sync, before anything else of it is even defined, because
-- most commands end here: nothing waits, all that is acquired is free, nothing
-- is cancelled or checked, and neither an order, nor a recovery, nor an ended
-- session asks for more. Whatever it does not understand is left to the rest
-- of the script, which begins with what was read here.
--
-- shard_values: head, entry of the session, order and literal limits of the
-- name; semaphore_values: head and account of the session.

if not ARGV[3] then error('DSEM argument 3 is not a name', 0) end
local shard_values = redis.call('HMGET', KEYS[1], '.', ARGV[1],
    'order:' .. ARGV[3], 'limit:' .. ARGV[3])
local semaphore_values = redis.pcall('HMGET', KEYS[2], '.', ARGV[1])

-- Weight of the acquires from ARGV[4] on; nil: one is not understood.
local function quiet_weight(acquires)
    local sum = 0
    for i = 4, 3 + acquires do
        local weight, class = string.match(ARGV[i] or '',
            '^%d+ (%d+) (%-?%d) %d+$')
        weight, class = tonumber(weight), tonumber(class)
        if not weight or weight < 1 or class < -8 or class > 7 then
            return nil
        end
        sum = sum + weight
    end
    return sum
end

-- The reply; nil: not a quiet call.
local function quiet_sync()
    local epoch, number, known, limit, flags, released, acquires =
        string.match(ARGV[2] or '',
            '^(%d+) (%d+) (%d+) (%d+) ([0-7]) (%d+) 0 (%d+) 0$')
    local gen, clock, wall, recover_until, ended = string.match(
        shard_values[1] or '', '^2 (%d+) (%d+) (%d+) (%d+) (%d+) ')
    if not epoch or gen ~= known or shard_values[3]
        or semaphore_values.err
        or string.match(shard_values[2] or '', '^(%d+) ') ~= epoch
        or tonumber(recover_until) > tonumber(clock)
    then
        return nil
    end

    local head, own = semaphore_values[1], semaphore_values[2]
    local held, stored, seq, touched, active, recalled = 0, nil, nil, nil, 0, 0
    if head then
        local seen
        held, stored, seq, seen, touched, active, recalled = string.match(head,
            '^(%d+) 0 (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) 0 0$')
        if seen ~= ended or clock - touched >= 3600000 or clock - touched < 0
        then
            return nil
        end
    end
    local kept, reuse = 0, ''
    if own then
        kept, reuse = string.match(own, '^' .. epoch .. ' (%d+) 0 ?([12]?)$')
    end
    local weight = quiet_weight(tonumber(acquires))
    limit, released = tonumber(limit), tonumber(released)
    if not kept or not weight or limit > 2^53 or released > kept + 0 then
        return nil
    end

    -- the same rules as for any other call: see limit_in_force()
    if flags % 8 >= 4 and shard_values[4] then
        stored = string.match(shard_values[4], '^%d+')
    elseif not stored or weight > 0 and flags % 2 == 1 then
        stored = limit
    end
    local total = held - released + weight
    if total > tonumber(stored) then return nil end

    local now = kept - released + weight
    if total == 0 then
        if head then redis.call('UNLINK', KEYS[2], KEYS[3]) end
    else
        local keeps = flags % 4 >= 2 and now > 0 and '1' or ''
        if keeps ~= reuse then
            active = active + #keeps - (reuse == '1' and 1 or 0)
            recalled = recalled - (reuse == '2' and 1 or 0)
        end
        if not head then
            -- accounts of another layout may be left over
            redis.call('UNLINK', KEYS[2])
            local t = redis.call('TIME')
            local passed = t[1] * 1000 + math.floor(t[2] / 1000) - wall
            seq = string.format('%.0f', clock + math.min(math.max(passed, 0),
                math.floor(string.match(shard_values[2], ' (%d+) %d+ %S+$')
                    / 4)))
            touched = clock
        end
        local text = string.format('%.0f 0 %.0f %s %s %s %d %d 0 0', total,
            stored, seq, ended, touched, active, recalled)
        local account = string.format('%s %.0f 0', epoch, now)
        if keeps == '1' then account = account .. ' 1' end
        if now == 0 then
            redis.call('HSET', KEYS[2], '.', text)
            if own then redis.call('HDEL', KEYS[2], ARGV[1]) end
        elseif text ~= head or account ~= own then
            redis.call('HSET', KEYS[2], '.', text, ARGV[1], account)
        end
        if not head then redis.call('PEXPIRE', KEYS[2], 2592000000) end
    end

    local reply = { ARGV[1], tonumber(epoch), tonumber(number), 0, total,
        tonumber(stored), 0, 0, now, 0, 1, 0 }
    for i = 13, 12 + 3 * acquires, 3 do
        reply[i], reply[i + 1], reply[i + 2] = 1, 0, 0
    end
    return reply
end

local quiet = quiet_sync()
if quiet then return quiet end
