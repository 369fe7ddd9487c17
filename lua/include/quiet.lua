-- The two paths that most calls of sync take, before anything else of it is
-- even defined. Whatever they do not understand is left to the rest of the
-- script, which begins with what was read here. Neither writes before it is
-- certain to end the call; the rules are those of the rest.
--
-- Both need a call without cancels and checks of a known session and
-- generation, and a state without order, recovery, newly ended sessions and
-- parked tickets.
--
-- shard_values: head, entry of the session, order and literal limits of the
-- name; semaphore_values: head and account of the session.

local shard_values = redis.call('HMGET', KEYS[1], '.', ARGV[1],
    'order:' .. ARGV[3], 'limit:' .. ARGV[3])
local semaphore_values = redis.pcall('HMGET', KEYS[2], '.', ARGV[1])

-- The call and the shard, as strings; epoch nil: not understood.
local epoch, number, gen, limit, flags, released, acquires = string.match(
    ARGV[2] or '', '^(%d+) (%d+) (%d+) (%d+) ([0-7]) (%d+) 0 (%d+) 0$')
local shard_gen, clock, recover_until, ended = string.match(
    shard_values[1] or '', '^2 (%d+) (%d+) %d+ (%d+) (%d+) ')
local usual = epoch and gen == shard_gen and not shard_values[3]
    and not semaphore_values.err
    and (recover_until == '0' or recover_until - clock <= 0)
    and string.match(shard_values[2] or '', '^%d+') == epoch
    and #limit <= 15 and #released <= 15

-- The acquires, four values each, and the sum of weights; nil: one is not
-- understood.
local function quiet_acquires()
    local list, n, sum = {}, 0, 0
    for i = 4, 3 + acquires do
        local ticket, weight, class, queue_limit = string.match(ARGV[i] or '',
            '^(%d+) (%d+) (%-?%d) (%d+)$')
        weight, class = tonumber(weight), tonumber(class)
        if not weight or weight < 1 or class < -8 or class > 7 then
            return nil
        end
        list[n + 1], list[n + 2], list[n + 3], list[n + 4] =
            ticket, weight, class, queue_limit
        n, sum = n + 4, sum + weight
    end
    return list, sum
end

-- The limit in force, where no order is.
local function quiet_limit(stored)
    local lowest = flags % 8 >= 4 and shard_values[4]
    if lowest then return tonumber(string.match(lowest, '^%d+')) end
    if not stored or acquires ~= '0' and flags % 2 == 1 then
        return tonumber(limit)
    end
    return tonumber(stored)
end

-- Whether the semaphore's expiry need not be set again.
local function quiet_fresh(touched)
    local passed = clock - touched
    return passed >= 0 and passed < 3600000
end

-- Begins a semaphore: places begin at the clock. Returns seq and touched.
local function quiet_begin()
    -- accounts of another layout may be left over
    redis.call('UNLINK', KEYS[2])
    local t = redis.call('TIME')
    local wall = string.match(shard_values[1], '^%d+ %d+ %d+ (%d+)')
    local passed = t[1] * 1000 + math.floor(t[2] / 1000) - wall
    local lease = string.match(shard_values[2], '^%d+ %d+ (%d+)')
    return clock + math.min(math.max(passed, 0), math.floor(lease / 4)), clock
end

-- Nothing waits, and all that is acquired is free. Returns the reply, or nil.
local function quiet_sync(acquired, weight)
    local head = semaphore_values[1]
    local own = head and semaphore_values[2]
    local held, stored, seq, seen, touched = 0, nil, nil, nil, nil
    local active, recalled, kept, reuse = 0, 0, 0, ''
    if head then
        held, stored, seq, seen, touched, active, recalled = string.match(head,
            '^(%d+) 0 (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) 0 %-?%d+$')
        if seen ~= ended or not quiet_fresh(touched) then
            return nil
        end
    end
    if own then
        local of_epoch
        of_epoch, kept, reuse = string.match(own, '^(%d+) (%d+) 0 ?([12]?)$')
        if of_epoch ~= epoch then return nil end
    end
    if not kept or kept - released < 0 then return nil end
    local in_force = quiet_limit(stored)
    local total = held - released + weight
    if total > in_force then return nil end

    local now = kept - released + weight
    if total > 0 then
        local keeps = now > 0 and flags % 4 >= 2 and '1' or ''
        if keeps ~= reuse then
            active = active + #keeps - (reuse == '1' and 1 or 0)
            recalled = recalled - (reuse == '2' and 1 or 0)
        end
        if not head then seq, touched = quiet_begin() end
        local text = string.format('%d 0 %d %s %s %s %s %s 0 0', total,
            in_force, seq, ended, touched, active, recalled)
        local account = string.format(keeps == '1' and '%s %d 0 1'
            or '%s %d 0', epoch, now)
        if now == 0 then
            redis.call('HSET', KEYS[2], '.', text)
            if own then redis.call('HDEL', KEYS[2], ARGV[1]) end
        elseif text ~= head or account ~= own then
            redis.call('HSET', KEYS[2], '.', text, ARGV[1], account)
        end
        if not head then redis.call('PEXPIRE', KEYS[2], 2592000000) end
    elseif head then
        redis.call('UNLINK', KEYS[2], KEYS[3])
    end

    local reply = { ARGV[1], tonumber(epoch), tonumber(number), 0,
        total, in_force, 0, 0, now, 0, 1, 0 }
    for i = 13, 12 + 3 * #acquired / 4, 3 do
        reply[i], reply[i + 1], reply[i + 2] = 1, 0, 0
    end
    return reply
end

local asks, asked_weight
if usual then asks, asked_weight = quiet_acquires() end
if asks then
    local reply = quiet_sync(asks, asked_weight)
    if reply then return reply end
end
