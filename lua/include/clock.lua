-- The logical clock, in ms. It follows the wall clock of Redis but never goes
-- back, and one call moves it by a quarter of the shortest registered lease at
-- most. A step of the host's clock therefore expires no lease, and the first
-- call after an outage does not expire the leases of all other sessions, which
-- may be shorter than that of the caller.

-- The wall clock in ms. TIME replies with two integers, the second without
-- leading zeros.
local function wall_now()
    local t = redis.call('TIME')
    return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- The logical clock at wall time now: clock and wall as stored; lease: the
-- shortest one that is registered; all in ms.
local function clock_now(clock, wall, lease, now)
    -- R4: step of the clock
    return clock + math.min(math.max(now - wall, 0), math.floor(lease / 4))
end
