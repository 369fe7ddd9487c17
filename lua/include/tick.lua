-- Heartbeats between two moves of the clock; more are a leap: the host's clock
-- was stepped, or Redis stood still. One worker alone may be a little late.
local LEAP = 5 / 4

-- Grants nothing for a quarter of this lease.
local function clock_pause(shard, lease)
    local ends = shard.clock + math.floor(lease / 4)
    redis.call('HSET', shard.key, 'pause', ends, 'paused', shard.clock)
    shard.recover_until = math.max(shard.recover_until, ends)
end

-- Moves the clock of the shard; lease: of the caller, which counts only if no
-- session is registered. After three quarters of a lease without a command
-- although sessions are registered, all workers with that lease may have
-- admitted requests by their local shares, which Redis does not count. Then
-- nothing is granted for a quarter of the longest such lease, so that all
-- sessions can declare first; a census does not end this pause. A forward step
-- of the host's clock causes the same pause and nothing else: no session is
-- silent because of a leap. Returns how far the wall clock has moved since it
-- was read last, in ms.
local function clock_tick(shard, lease)
    local now = wall_now()
    local passed = now - shard.wall
    if shard.lease > 0 then lease = shard.lease end
    shard.clock = clock_now(shard.clock, shard.wall, lease, now)
    shard.wall = now
    if passed > LEAP * heartbeat(lease)
        and passed > LEAP * heartbeat(leases_longest(shard, math.huge))
    then
        shard.leap = shard.clock
        redis.call('HSET', shard.key, 'leap', shard.leap)
    end
    -- R3: fence
    if passed >= lease * 3 / 4 and shard.sessions > 0 then
        clock_pause(shard, leases_longest(shard, passed * 4 / 3))
    end
    return passed
end
