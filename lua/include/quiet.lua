-- The two paths that most calls of sync take, before anything else of it is
-- even defined. Whatever they do not understand is left to the rest of the
-- script, which begins with what was read here. Neither writes before it is
-- certain to end the call; the rules are those of the rest.
--
-- Both need a call without cancels and checks of a known session and
-- generation, and a state without order, recovery, newly ended sessions and
-- parked tickets.
--
-- shard_values: head, entry of the session, order and, where the limit is a
-- literal one, limits of the name; semaphore_values: head and account of the
-- session.

-- The call, as strings; nil: not understood.
local call_epoch, call_number, call_gen, call_limit, call_flags, call_released,
    call_acquires = string.match(ARGV[2] or '',
        '^(%d+) (%d+) (%d+) (%d+) ([0-7]) (%d+) 0 (%d+) 0$')
local usual_order = 'order:' .. (ARGV[3] or '')

local shard_values
if call_flags and call_flags < '4' then
    shard_values = redis.call('HMGET', KEYS[1], '.', ARGV[1] or '',
        usual_order)
else
    shard_values = redis.call('HMGET', KEYS[1], '.', ARGV[1] or '',
        usual_order, 'limit:' .. (ARGV[3] or ''))
end
local semaphore_values = redis.pcall('HMGET', KEYS[2], '.', ARGV[1] or '')

-- The shard, as strings; usual: call and shard are understood.
local shard_gen, shard_clock, shard_until, shard_ended = string.match(
    shard_values[1] or '', '^2 (%d+) (%d+) %d+ (%d+)( %d+ )')
local usual = call_epoch and call_gen == shard_gen and not shard_values[3]
    and not semaphore_values.err
    and (shard_until == '0' or shard_until - shard_clock <= 0)
    and string.match(shard_values[2] or '', '^%d+') == call_epoch
    and #call_limit <= 15 and #call_released <= 15

-- The sum of the acquired weights.
local usual_weight = 0
for i = 4, usual and 3 + call_acquires or 0 do
    local weight, class = string.match(ARGV[i] or '',
        '^%d+ (%d+) (%-?%d) %d+$')
    if not weight or weight == '0' or class == '8' or class == '9'
        or class == '-9'
    then
        usual = false
        break
    end
    usual_weight = usual_weight + weight
end

-- The limit in force, where no order is, as text; none: the stored one.
local usual_limit
if usual then
    call_flags, call_released = tonumber(call_flags), tonumber(call_released)
    usual_limit = call_flags >= 4 and shard_values[4]
        and string.match(shard_values[4], '^%d+')
    if not usual_limit and call_acquires ~= '0' and call_flags % 2 == 1 then
        usual_limit = call_limit
    end
end

-- One call in ten leaves it to the rest of the script to look whether the
-- expiry has to be set again.
local usual_touch = usual and string.byte(call_number, -1) == 48

-- The head from seq on: of a semaphore that begins, with places at the clock,
-- or after the reuse of an account has changed.
local function quiet_rest(rest, keeps, reuse)
    if not rest then
        -- accounts of another layout may be left over
        redis.call('UNLINK', KEYS[2])
        local t = redis.call('TIME')
        local wall = string.match(shard_values[1], '^%d+ %d+ %d+ (%d+)')
        local lease = string.match(shard_values[2], '^%d+ %d+ (%d+)')
        local passed = t[1] * 1000 + math.floor(t[2] / 1000) - wall
        rest = string.format(' %d%s%s 0 0 0 0', shard_clock
            + math.min(math.max(passed, 0), math.floor(lease / 4)),
            shard_ended, shard_clock)
    end
    if keeps == reuse then return rest end
    local before, active, recalled, after = string.match(rest,
        '^( %d+ %d+ %d+) (%d+) (%d+)( 0 %-?%d+)$')
    return before .. ' ' .. active + #keeps - (reuse == '1' and 1 or 0) .. ' '
        .. recalled - (reuse == '2' and 1 or 0) .. after
end

-- Nothing waits, and all that is acquired is free. Returns the reply, or nil.
local function quiet_sync()
    local head = semaphore_values[1]
    local own = head and semaphore_values[2]
    local held, stored, rest = 0, call_limit, nil
    if head then
        held, stored, rest = string.match(head,
            '^(%d+) 0 (%d+)( %d+ %d+ %d+ %d+ %d+ 0 %-?%d+)$')
        if not rest or usual_touch
            or not string.find(rest, shard_ended, 1, true)
        then
            return nil
        end
    end
    local epoch, kept, reuse = call_epoch, 0, ''
    if own then
        epoch, kept, reuse = string.match(own, '^(%d+) (%d+) 0 ?([12]?)$')
    end
    if epoch ~= call_epoch then return nil end
    local limit, change = usual_limit or stored, usual_weight - call_released
    local total, now = held + change, kept + change
    local in_force = tonumber(limit)
    if now < usual_weight or total > in_force then return nil end

    local keeps = now > 0 and call_flags % 4 >= 2 and '1' or ''
    if total == 0 then
        if head then redis.call('UNLINK', KEYS[2], KEYS[3]) end
    elseif change ~= 0 or limit ~= stored or keeps ~= reuse then
        if not head or keeps ~= reuse then
            rest = quiet_rest(rest, keeps, reuse)
        end
        local account = epoch .. ' ' .. now .. (keeps == '1' and ' 0 1'
            or ' 0')
        redis.call('HSET', KEYS[2], '.', total .. ' 0 ' .. limit .. rest,
            ARGV[1], account)
        if now == 0 then redis.call('HDEL', KEYS[2], ARGV[1]) end
        if not head then redis.call('PEXPIRE', KEYS[2], 2592000000) end
    end

    local granted, zero
    if call_acquires ~= '0' then granted, zero = 1, 0 end
    local reply = { ARGV[1], tonumber(epoch), tonumber(call_number), 0, total,
        in_force, 0, 0, now, 0, 1, 0, granted, zero, zero }
    for i = 16, 12 + 3 * call_acquires, 3 do
        reply[i], reply[i + 1], reply[i + 2] = 1, 0, 0
    end
    return reply
end

if usual then
    local reply = quiet_sync()
    if reply then return reply end
end
