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

-- The logical clock at wall time now: clock and wall as stored, all in ms.
local function clock_now(clock, wall, lease, now)
    return clock + math.min(math.max(now - wall, 0), math.floor(lease / 4))
end

-- Moves the clock of the shard. After three quarters of a lease without a
-- command although sessions are registered, all workers may have admitted
-- requests by their local shares, which Redis does not count. Then nothing is
-- granted for a quarter of a lease, so that all sessions can declare first; a
-- census does not end this pause. A forward step of the host's clock causes
-- the same pause and nothing else. Returns how far the wall clock has moved
-- since it was read last, in ms.
local function clock_tick(shard, lease)
    local now = wall_now()
    local passed = now - shard.wall
    shard.clock = clock_now(shard.clock, shard.wall, lease, now)
    shard.wall = now
    if passed >= lease * 3 / 4 and shard.sessions > 0 then
        local pause = shard.clock + math.floor(lease / 4)
        redis.call('HSET', shard.key, 'pause', pause)
        shard.recover_until = math.max(shard.recover_until, pause)
    end
    return passed
end
