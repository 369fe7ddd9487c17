-- The rule of limit=auto: it moves the limit by what requests of the whole
-- fleet took. Pure functions on a table of integers; t/model/limits runs the
-- same file in a simulation.
--
-- A backend that is busy up to its knee answers in its floor, the latency
-- without queueing. With more requests the latency grows with their number:
-- of a limit L and a latency l, L * (l - floor) / l requests queue inside the
-- backend. The rule keeps about one to two of twenty there: it raises the limit
-- below that, in growing steps, and lowers it above, to the knee at once.
-- The floor is measured by a probe: the limit is lowered for a moment. A probe
-- comes before a cut unless the floor is fresh, so a backend that has become
-- slower for another reason than its load is found out, and after some time
-- without one. The same holds for errors: where a cut does not lower their
-- rate, they are not caused by load.
--
-- Times are in ms of the clock, latencies in us, rates in permille.

-- why the limit is what it is
local AUTO_REASON = {
    none = 0,       -- nothing has been judged yet
    unused = 1,     -- fewer than half of the permits are in use
    probing = 2,    -- the limit is raised, or lowered for a probe
    latency = 3,    -- requests queue inside the backend
    errors = 4,     -- requests fail with a higher limit
    bound = 5       -- it is at its minimum or maximum
}

local AUTO_MODE = { steady = 0, probe = 1, errors = 2 }

-- requests that are judged together: the square of the limit, within these
-- bounds, as the mean of n requests is exact to 1 / sqrt(n) where their times
-- are as different as usual; fewer after so many ms or latencies, or where the
-- case is clear
local AUTO_FEWEST, AUTO_PROBED, AUTO_MOST = 8, 50, 400
local AUTO_WAIT_MS, AUTO_WAIT_LATENCIES, AUTO_LONGEST_MS = 1000, 4, 10000
-- ms without a probe, or so many latencies where requests take long
local AUTO_PROBE_MS, AUTO_PROBE_LATENCIES = 15000, 100
-- permille of failed requests that are normal
local AUTO_ERRORS = 50
-- ms for which a limit that caused errors is not tried again
local AUTO_BLAME_MS = 20000
-- ms after a change that are not judged, at most
local AUTO_SETTLE_MS = 10000

-- A state that begins with a limit.
local function auto_new(limit, now)
    return {
        found = limit, reason = AUTO_REASON.none, floor = 0, latency = 0,
        normal = 0, mode = AUTO_MODE.steady, base = 0, before = 0,
        changed = now, confirmed = 0, rises = 0, ceiling = 0, blamed = 0,
        count = 0, sum = 0, errors = 0, waited = 0, span = 0, peak = 0,
        paced = now, paced_span = 0, sessions = 0, settle = 0, opened = now,
        top = 0, top_latency = 0, suspect = 0, knee = 0,
        seen = now
    }
end

-- Forgets the requests that were to be judged.
local function auto_clear(s)
    s.count, s.sum, s.errors, s.waited, s.span, s.peak = 0, 0, 0, 0, 0, 0
end

local function auto_set(s, limit, reason, now)
    s.suspect = 0
    if limit ~= s.found then
        s.found, s.changed = limit, now
        s.settle = math.min(math.ceil(s.latency / 500), AUTO_SETTLE_MS)
        auto_clear(s)
    end
    s.reason = reason
end

-- Other bounds may exclude the limit.
local function auto_bound(s, min, max, now)
    local limit = math.max(min, math.min(max, s.found))
    if limit ~= s.found then
        s.mode = AUTO_MODE.steady
        auto_set(s, limit, AUTO_REASON.bound, now)
    end
end

-- The limit found, without a probe that is going on.
local function auto_kept(s)
    return s.mode == AUTO_MODE.probe and s.base or s.found
end

-- Nothing is learned from now on: a probe ends.
local function auto_stop(s, now)
    s.found = auto_kept(s)
    s.changed, s.mode = now, AUTO_MODE.steady
    auto_clear(s)
end

-- The number found is not the limit in force.
local function auto_idle(s, now)
    auto_stop(s, now)
    s.reason = AUTO_REASON.unused
end

-- There was no sample for so many ms: a probe that was going on tells nothing,
-- and its limit must not stay.
local function auto_resume(s, silence, now)
    if now - s.seen > silence then auto_stop(s, now) end
end

-- ms until a session shall send its next sample: ten per second of all
-- sessions, one per second of each of more, and at most 100 of all.
local function auto_pace(s)
    return math.max(100, math.min(100 * s.sessions, 1000), 10 * s.sessions)
end

-- Counts the sessions that send samples: the time that their samples cover, in
-- so many ms. Before the first count, windows may begin long before the state:
-- the first one of a session at the start of its worker.
local function auto_sessions(s, window, now)
    local passed = now - s.paced
    if s.sessions == 0 then window = math.min(window, passed + auto_pace(s)) end
    s.paced_span = s.paced_span + window
    if passed < math.max(1000, 3 * auto_pace(s)) then return end
    s.sessions = math.max(1, math.floor(s.paced_span / passed + 0.5))
    s.paced, s.paced_span = now, 0
end

-- Whether requests fail more often than usual, and not by chance: by more than
-- twice the deviation of that number.
local function auto_fails(s)
    local usual = s.count * (AUTO_ERRORS + 2 * s.normal) / 1000
    return s.errors > 1 and s.errors > usual + 2 * math.sqrt(usual)
end

-- Whether the limit is far below the knee, as far as that is known.
local function auto_far(s)
    return s.mode == AUTO_MODE.steady
        and (s.knee == 0 or 4 * s.found < 3 * s.knee)
end

-- Whether the requests suffice for a judgement.
local function auto_enough(s, now)
    local count, limit, passed = s.count, s.found, now - s.opened
    -- the first ones to end are short ones
    if passed * 1000 * (count - s.errors) < 4 * s.sum then return false end
    if s.mode == AUTO_MODE.errors then
        -- half of a low rate is to be told from all of it
        return count >= (s.before < 200 and AUTO_MOST / 2 or AUTO_PROBED)
            or count > 0 and passed >= AUTO_LONGEST_MS
    end
    local fewest = s.mode == AUTO_MODE.probe and AUTO_PROBED or AUTO_FEWEST
    local most = math.max(auto_far(s) and AUTO_MOST / 4 or AUTO_MOST,
        5 * limit)
    if count >= math.max(fewest, math.min(2 * limit * limit, most)) then
        return true
    end
    if passed >= math.max(AUTO_WAIT_MS, AUTO_WAIT_LATENCIES * s.latency / 1000)
    then
        return count >= AUTO_FEWEST and count >= limit
            or count > 0 and passed >= AUTO_LONGEST_MS
    end
    return count >= AUTO_FEWEST and count >= math.min(2 * limit, 100)
        and (s.floor > 0 and s.sum > 2 * s.floor * count
            or auto_fails(s) and s.errors * 2 > count)
end

-- Adds a sample of one session. Returns whether the requests suffice for a
-- judgement. Requests of before the last change do not count.
local function auto_add(s, sample, now)
    auto_sessions(s, sample.window, now)
    s.seen = now
    if now - sample.window < s.changed + s.settle then return false end
    if s.span == 0 then s.opened = now - sample.window end
    s.count, s.sum = s.count + sample.count, s.sum + sample.sum
    s.errors, s.span = s.errors + sample.errors, s.span + sample.window
    s.peak = math.max(s.peak, sample.peak)
    if sample.waiting then s.waited = 1 end
    return auto_enough(s, now)
end

-- Whether the limit is needed: requests wait for permits, half of the permits
-- are in use on average, or one session had all of them in use.
local function auto_used(s)
    return s.waited == 1 or s.peak >= s.found
        or 2 * math.max(1, s.sessions) * s.sum >= s.found * s.span * 1000
end

-- The number of requests that queue inside the backend.
local function auto_queued(limit, latency, floor)
    return limit * math.max(latency - floor, 0) / latency
end

-- How many of them are too few, and too many.
local function auto_few(limit) return math.max(1, limit / 20) end
local function auto_many(limit) return math.max(2, limit / 12) end

-- Whether it is time to measure the floor again.
local function auto_stale(s, now)
    return now - s.confirmed > math.max(AUTO_PROBE_MS,
        AUTO_PROBE_LATENCIES * s.latency / 1000)
end

-- Lowers the limit for a moment, to find out what that changes.
local function auto_try(s, limit, reason, now)
    s.mode, s.base, s.before, s.rises = AUTO_MODE.probe, s.found, s.latency, 0
    auto_set(s, limit, reason, now)
end

-- A probe as the first of some.
local function auto_probe(s, limit, reason, now)
    s.top, s.top_latency = s.found, s.latency
    auto_try(s, limit, reason, now)
end

-- The end of a probe. Where the latency has risen meanwhile, or is lower in
-- proportion to the limit but not at the floor that is known, another one
-- follows, at half of the limit. So it does once where the latency is far above
-- that floor: a backend that changed shortly before the probe has made the
-- latency before it a mixture. Where none follows it is the floor, and the
-- limit goes to the knee that follows from the first probe.
local function auto_probed(s, min, now)
    local latency, limit = s.latency, s.found
    local expected = s.before * (s.base - limit) / s.base
    local known = s.confirmed > 0
        and math.abs(latency - s.floor) * 8 < s.floor
    local risen = latency * 4 > s.before * 5
        or s.rises == 0 and s.confirmed > 0 and latency * 4 > s.floor * 5
    if limit > min
        and (risen or not known and (s.before - latency) * 2 >= expected)
    then
        if risen then s.top, s.top_latency = limit, latency end
        auto_try(s, math.max(min, math.floor(limit / 2)), AUTO_REASON.latency,
            now)
        s.rises = 1
        return
    end
    s.rises = 0
    local near = math.abs(latency - s.floor) * 4 < s.floor
    s.floor = near and math.floor((s.floor + latency) / 2) or latency
    s.mode, s.confirmed = AUTO_MODE.steady, now
    local top, queued = s.top, auto_queued(s.top, s.top_latency, s.floor)
    if queued > 1.5 * auto_few(top) then
        top = math.floor(top - queued + auto_few(top - queued))
    end
    s.knee = queued > auto_many(s.top) and math.max(limit, top) or s.knee
    auto_set(s, math.max(limit, top), AUTO_REASON.latency, now)
end

-- Requests fail more often than usual: a lower limit shows whether that helps.
local function auto_failed(s, rate, min, now)
    local limit = s.found
    local lower = math.floor(limit * (1000 - math.max(100,
        math.min(rate, 500))) / 1000)
    -- one that was tried again
    if limit == s.ceiling or limit == s.ceiling - 1 then lower = limit - 1 end
    s.mode, s.base, s.before, s.rises = AUTO_MODE.errors, limit, rate, 0
    s.ceiling, s.blamed = limit, now
    auto_set(s, math.max(min, math.min(lower, limit - 1)), AUTO_REASON.errors,
        now)
end

-- Of a limit that was lowered because of errors. Where half of it does not
-- halve their rate, their failing has nothing to do with load. Far above the
-- load that a backend takes most requests fail, at half of it too: then down to
-- the minimum.
local function auto_blame(s, rate, min, now)
    local limit = s.found
    s.reason = AUTO_REASON.errors
    if rate * 2 <= s.before then
        s.mode = AUTO_MODE.steady
    elseif limit <= min or s.before < 500 and limit * 2 <= s.base then
        s.normal, s.mode = math.max(rate, s.before), AUTO_MODE.steady
        s.ceiling = 0
        auto_set(s, s.base, AUTO_REASON.errors, now)
    else
        s.ceiling, s.blamed = limit, now
        auto_set(s, math.max(min, math.floor(limit / 2)), AUTO_REASON.errors,
            now)
    end
end

-- Few requests queue: more are let in, in growing steps. A limit that caused
-- errors is tried again after some time.
local function auto_raise(s, max, now)
    local limit, top = s.found, max
    if s.ceiling > 0 and limit >= s.ceiling then s.ceiling = 0 end
    if s.ceiling > 0 then
        local again = now - s.blamed > AUTO_BLAME_MS
            and limit == s.ceiling - 1
        top = math.min(max, again and s.ceiling or s.ceiling - 1)
    end
    if limit >= top then
        s.rises = 0
        s.reason = top < max and AUTO_REASON.errors or AUTO_REASON.bound
        return
    end
    s.rises = s.rises + 1
    if 2 * limit > 3 * s.knee then s.knee = 0 end
    local step = auto_far(s) and limit / 2
        or limit * 2 ^ math.min(s.rises, 3) / 32
    step = math.max(1, math.floor(step))
    -- up to the limit that caused errors the way is known
    if s.ceiling > 0 then
        step = math.max(step, math.ceil((top - limit) / 2))
    end
    auto_set(s, math.min(top, limit + step), AUTO_REASON.probing, now)
end

-- Many requests queue, and did at the last judgement too, as that may be chance
-- or of requests from before and after a change of the backend: a probe shows
-- whether a lower limit helps, and where the knee is.
local function auto_cut(s, min, now)
    local limit = s.found
    s.rises = 0
    if s.suspect == 0 then
        s.suspect, s.reason = 1, AUTO_REASON.latency
    elseif limit <= min then
        -- it cannot be measured any lower
        s.floor = math.floor((s.floor * 7 + s.latency) / 8)
        s.reason = AUTO_REASON.bound
    else
        local lower = limit * math.max(0.5, math.min(0.75,
            s.floor / s.latency))
        auto_probe(s, math.max(min, math.floor(lower)), AUTO_REASON.latency,
            now)
    end
end

-- The latency without queueing: the mean of those with which few requests
-- queue; a little of others, as it would be too low without them.
local function auto_floor(s)
    local floor, latency = s.floor, s.latency
    local queued = auto_queued(s.found, latency, floor)
    if latency * 4 < floor * 3 then
        -- the backend has become faster: a probe shows how much
        s.floor, s.confirmed = math.floor((floor + latency) / 2), 0
    elseif queued < auto_few(s.found) then
        s.floor = math.floor((floor * 7 + latency) / 8)
    elseif queued < auto_many(s.found) then
        s.floor = math.floor((floor * 127 + latency) / 128)
    end
end

-- The requests of a limit that is used and that causes no errors.
local function auto_steady(s, min, max, now)
    -- the first requests are those that were short
    if s.floor == 0 then
        s.floor, s.reason = s.latency, AUTO_REASON.probing
        return
    end
    auto_floor(s)
    local queued = auto_queued(s.found, s.latency, s.floor)
    local unknown = s.confirmed == 0
    if s.found > min and (unknown or auto_stale(s, now)) then
        local lower = math.floor(s.found * (unknown and 2 or 3) / 4)
        auto_probe(s, math.max(min, lower), AUTO_REASON.probing, now)
    elseif queued > auto_many(s.found) then
        auto_cut(s, min, now)
    elseif queued < auto_few(s.found) then
        auto_raise(s, max, now)
    else
        -- once more, as once may be chance
        if s.rises == 0 then s.knee = s.found end
        s.rises, s.suspect, s.reason = 0, 0, AUTO_REASON.latency
    end
end

-- Judges the requests, and moves the limit.
local function auto_judge(s, min, max, now)
    local before, rate = s.found, math.floor(s.errors * 1000 / s.count)
    local failed, good = auto_fails(s), s.count - s.errors
    s.normal = math.min(s.normal, math.max(rate,
        math.floor(s.normal * 15 / 16)))
    if good > 0 then s.latency = math.max(1, math.floor(s.sum / good)) end
    if s.mode == AUTO_MODE.errors then
        auto_blame(s, rate, min, now)
    elseif failed then
        auto_failed(s, rate, min, now)
    elseif not auto_used(s) then
        auto_stop(s, now)
        s.rises, s.reason = 0, AUTO_REASON.unused
    elseif s.mode == AUTO_MODE.probe then
        auto_probed(s, min, now)
    else
        auto_steady(s, min, max, now)
    end
    if s.found == before then auto_clear(s) end
end
