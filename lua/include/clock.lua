-- The logical clock, in ms. It follows the wall clock of Redis but never goes
-- back, and one call moves it by a quarter of a lease at most. A step of the
-- host's clock therefore expires no lease, and the first call after an outage
-- does not expire the leases of all other sessions.

-- The wall clock in ms. TIME replies with two integers, the second without
-- leading zeros.
local function wall_now()
    local t = redis.call('TIME')
    return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The logical clock at wall time now: clock and wall as stored (nil at
-- first), all in ms. Writes nothing.
local function clock_now(clock, wall, lease, now)
    local passed = now - (wall or now)
    return (clock or 0) + math.min(math.max(passed, 0), math.floor(lease / 4))
end

-- Moves the stored clock and returns it. After three quarters of a lease
-- without a command although sessions are registered, all workers may have
-- admitted requests by their local shares, which Redis does not count. Then
-- nothing is granted for a quarter of a lease, so that all sessions can
-- declare first; a census does not end this pause. A forward step of the
-- host's clock causes the same pause and nothing else.
local function clock_tick(meta, sessions, lease)
    local v = redis.call('HMGET', meta, 'clock', 'wall', 'recover_until')
    local now, wall = wall_now(), tonumber(v[2])
    local clock = clock_now(tonumber(v[1]), wall, lease, now)
    redis.call('HSET', meta, 'clock', clock, 'wall', now)
    if wall and now - wall >= lease * 3 / 4
        and redis.call('ZCARD', sessions) > 0
    then
        local pause = clock + math.floor(lease / 4)
        redis.call('HSET', meta, 'pause', pause, 'recover_until',
            math.max(tonumber(v[3]) or 0, pause))
    end
    return clock
end
