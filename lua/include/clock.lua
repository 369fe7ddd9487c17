-- The logical clock, in ms. It follows the wall clock of Redis but never
-- goes back, and never moves by more than a quarter of a lease per call: a
-- host clock that jumps ends no lease, and after an outage the first caller
-- does not end everybody else's.

-- The wall clock in ms. TIME is two integers; the second is not zero-padded.
local function wall_now()
    local t = redis.call('TIME')
    return t[1] * 1000 + math.floor(t[2] / 1000)
end

-- What the clock shows now: clock and wall as stored (nil at first), the
-- lease in ms. Writes nothing.
local function clock_now(clock, wall, lease, now)
    local passed = now - (wall or now)
    return (clock or 0) + math.min(math.max(passed, 0), math.floor(lease / 4))
end

-- Moves the stored clock and returns it. When nobody was heard for most of
-- a lease although there are sessions, all may have gone on with their
-- shares, of which Redis does not know: a quarter of a lease is left for all
-- to declare them before anything is granted. (A host clock that jumps
-- costs that pause, too, and nothing else.)
local function clock_tick(meta, sessions, lease)
    local v = redis.call('HMGET', meta, 'clock', 'wall', 'recover_until')
    local now, wall = wall_now(), tonumber(v[2])
    local clock = clock_now(tonumber(v[1]), wall, lease, now)
    redis.call('HSET', meta, 'clock', clock, 'wall', now)
    if wall and now - wall >= lease * 3 / 4
        and redis.call('ZCARD', sessions) > 0
    then
        redis.call('HSET', meta, 'recover_until',
            math.max(tonumber(v[3]) or 0, clock + math.floor(lease / 4)))
    end
    return clock
end
