-- The rule of limit=auto: it moves the limit by what requests of the whole
-- fleet took. Pure functions on a table of integers; t/model/limits and
-- t/model/zoo run the same file in simulations. docs/limit-auto.md has the
-- reasons.
--
-- Two limits are compared, in pairs of turns: the limit found, and one that
-- is tried, a step above or below it. Of two limits the better one has more
-- throughput for its latency: a higher one, where the latency rises by less
-- than WORTH of the distance between both, a lower one, where it falls by
-- more. Limits and latencies are compared by their logarithms, so a request
-- counts by how many times as long it takes, whatever its own time is. The
-- latency of a turn is the mean logarithm of the times of its requests. A
-- pair and the next one are in opposite orders, so that traffic that changes
-- steadily cancels out; the order of every other one is left to chance, as
-- traffic that changes with the turns would always meet the same limit.
--
-- A comparison ends when the mean of its pairs is farther from that bound
-- than chance, the standard error, allows. It is known from the pairs, and
-- before there are many from the scatter of the requests and of turns of the
-- same limit (spread). Each pair counts as much as the distance at
-- most. Where the other limit is better it is found, and the next step is
-- longer; where it is not, the other direction is next, with a shorter step.
-- Where neither is better the rule rests for some turns. Short steps need
-- many pairs where latencies vary, but cost little; long ones find what is
-- far away: the first higher limit after a lower one is as far as some pairs
-- can show. A turn of a higher limit ends as soon as its requests show that the
-- latency rises more than the limit: beyond a wall each takes some times as
-- long. No step reaches a wall that has fallen below half of the limit. So
-- where the latency leaps, and half of the limit is not better, a deep step
-- follows: farther down than the latency has risen. The turn in which it leaps
-- shows a part of that, the one of the lower limit all. It may be too deep, so
-- half of the distance suffices. One in vain is the last for a minute, as
-- clients can make requests slow.
--
-- A wall below the first limit does not show in higher ones: beyond it
-- requests take as long with any limit. So where the latency does not rise with
-- the double, a third of the first limit is tried beside it, and half where the
-- latency falls, but too little for a third. They are given up sooner than
-- others, as few backends have such a wall, and have to be better than the
-- first limit in more pairs, as a limit that is too low is left slowly. Where
-- the latency changes meanwhile, or requests fail, they are tried again. Where
-- most permits are idle a turn takes long, and there is no such wall.
--
-- A node may be farther from the backend than others. How far the usual time
-- of a session is from that of the fleet is taken off its requests: a turn with
-- more requests of that node would be slower, and their scatter would hide the
-- rest. A distance below NODES, which may be chance, is left, from twice that
-- on all of it is taken.
--
-- Failing requests lower the limit. A lower limit that does not lower their
-- rate is taken back; one that does is found when the limit of before has
-- failed once more.
--
-- Times are in ms of the clock, latencies in us, rates in permille;
-- logarithms are natural ones, in units of 1/10000.

-- why the limit is what it is
local AUTO_REASON = {
    none = 0,       -- nothing has been judged yet
    unused = 1,     -- fewer than half of the permits are in use
    probing = 2,    -- it moves: the last comparison was won
    latency = 3,    -- requests queue inside the backend with a higher one
    errors = 4,     -- requests fail with a higher one, or all do
    bound = 5       -- it is at its minimum or maximum
}

local AUTO_MODE = { steady = 0, probe = 1, errors = 2 }

-- the limit of a new name, or the nearest bound, as in the configuration
local AUTO_START = 10
-- requests of a turn: twice the limit, within these bounds; a turn takes some
-- latencies, as the first requests to end are short ones, and up to half as
-- long again, so that it does not keep pace with anything
local AUTO_FEWEST, AUTO_MOST, AUTO_LATENCIES = 8, 100, 4
-- sessions that a judgement has samples of, as not all nodes are equally far,
-- and one of them may fail: of more, one is fewer than AUTO_ERRORS
local AUTO_EACH = 20
-- half of the distance is the most throughput / latency; more throughput
-- counts a little more, but for a deep step, which may be far too deep
local AUTO_WORTH, AUTO_WORTH_DEEP = 0.6, 0.5
-- standard errors that decide; after one pair, as it may be chance
local AUTO_SURE, AUTO_CERTAIN = 1.25, 2.5
-- limits below the first one, that are tried after the double with a new name:
-- how often, for "lost" to count up from, in twos, as half of the limit may
-- follow a third; pairs that one takes at least to be better; the step to a
-- third; the rise with the double from which on none is tried; how far the
-- latency has to fall at a third for half of the limit to be tried; part of the
-- permits in use on average, below which none is
local AUTO_FIRST = { lost = -6, pairs = 3, step = 11500, rise = 2500,
    falls = 2500, busy = 0.25 }
-- standard errors that end a turn beyond a wall: more, as each sample is asked
local AUTO_WALL = 4
-- pairs after which a comparison is given up; those of a step longer than the
-- least end with what is likely, in standard errors, as shorter ones follow
local AUTO_PAIRS, AUTO_PAIRS_LONG, AUTO_LIKELY = 20, 4, 0.5
-- a step at least: a tenth; at most: to the double; one that a few pairs can
-- show, in scatters of a turn
local AUTO_NEAR, AUTO_FAR, AUTO_SCATTERS = 953, 6931, 1.4
-- turns of rest for each least step by which the latency rose, and the most of
-- them; comparisons with higher limits before one with a lower limit, which
-- costs throughput
local AUTO_REST = { each = 3, most = 64, higher = 3 }
-- a change of the latency at the limit found that ends a rest
local AUTO_CHANGE = 1000
-- a rise that is a leap, to 2.2 times; how much longer the deep step is than
-- the leap, 1.4 times, as a wall may have fallen farther; ms without another
-- deep step after one in vain, or a limit that caused errors
local AUTO_LEAP = { rise = 8000, deeper = 3500, ms = 60000 }
-- part of the permits in use on average with which a limit is reached
local AUTO_REACHED = 0.9
-- standard error of a turn at least, as times are in whole ms
local AUTO_ERROR = 50
-- requests that are judged together where they fail: of a high rate, a low
-- one
local AUTO_FAILED = { high = 50, low = 200 }
-- ms after which fewer will do, and a limit that is not used is seen to be so;
-- for which a limit that caused errors is not tried again; where most failed at
-- it, for each that it took to see that, and how many of these count at most;
-- after a change that are not judged, two latencies, at most; that requests
-- that hang may add to a latency, at most
local AUTO_MS = { longest = 10000, blame = 20000, each = 20, hung = 30000,
    settle = 120000, held = 2500 }
-- permille of failed requests that are normal
local AUTO_ERRORS = 50
-- distance of a session's usual time from that of the fleet that may be chance;
-- samples that the usual time of the fleet is the mean of, at most
local AUTO_NODES, AUTO_USUAL = 2500, 10000

-- The limit of a new name.
local function auto_start(min, max)
    return math.max(min, math.min(max, AUTO_START))
end

-- A state that begins with a limit. One that is not that of a new name was
-- found before: it may be far too high, which a still higher one would not
-- show, so a third of it is tried first.
local function auto_new(limit, min, max, now)
    local new = limit == auto_start(min, max)
    return {
        found = limit, reason = AUTO_REASON.none, floor = 0, latency = 0,
        normal = 0, mode = AUTO_MODE.steady, base = 0, before = 0,
        changed = now, ceiling = 0, blamed = 0, again = 0, count = 0, sum = 0,
        logs = 0, squares = 0, errors = 0, waited = 0, span = 0, peak = 0,
        paced = now, paced_span = 0, sessions = 0, mean = 0, opened = now,
        tried = 0, gain = 0, gains = 0, pairs = 0, half = 0, rise = 0,
        level = 0, error = 0, trial = 0, trial_error = 0, spread = 100,
        step = AUTO_FAR, up = new and limit < max and 1 or 0,
        lost = new and AUTO_FIRST.lost or 0,
        higher = 0, rest = 0, known = 0, usual = 0, usual_of = 0, permits = 0
    }
end

-- Forgets the requests that were to be judged.
local function auto_clear(s)
    s.count, s.sum, s.logs, s.squares, s.errors = 0, 0, 0, 0, 0
    s.waited, s.span, s.peak, s.permits = 0, 0, 0, 0
end

local function auto_set(s, limit, now)
    if limit ~= s.found then
        s.found, s.changed = limit, now
        auto_clear(s)
    end
end

-- Nothing is compared from now on.
local function auto_drop(s)
    s.mode, s.tried, s.level = AUTO_MODE.steady, 0, 0
end

-- The limit found, without one that is tried.
local function auto_kept(s)
    return s.mode == AUTO_MODE.probe and s.base or s.found
end

-- The limit found, also where a lower one is in force because of errors, and
-- it is not known yet whether that helps.
local function auto_before(s)
    return s.mode == AUTO_MODE.steady and s.found or s.base
end

-- Other bounds may exclude the limit, or one that it is compared with.
local function auto_bound(s, min, max, now)
    local low, high, before = s.found, s.found, auto_before(s)
    if s.tried > 0 then
        low, high = math.min(s.base, s.tried), math.max(s.base, s.tried)
    end
    if low >= min and high <= max then return end
    auto_drop(s)
    auto_set(s, math.max(min, math.min(max, before)), now)
    if s.found ~= before then s.reason = AUTO_REASON.bound end
end

-- Nothing is learned from now on: a comparison ends, and a search for a limit
-- without errors.
local function auto_stop(s, reason, now)
    s.found, s.reason, s.changed = auto_before(s), reason, now
    auto_drop(s)
    auto_clear(s)
end

-- ms until a session shall send its next sample: ten per second of all
-- sessions, one per second of each of more, and at most 100 of all.
local function auto_pace(s)
    return math.max(100, math.min(100 * s.sessions, 1000), 10 * s.sessions)
end

-- Counts the sessions that send samples: the time that their samples cover,
-- divided by the time that has passed. Windows may begin before that time: over
-- five paces few do, over three the number would go up and down without end.
-- Where requests take seconds most do, and count whole, or fewer sessions would
-- be counted. But many sessions may send one of a far older pace at once, or of
-- the time since they began: what reaches back more than a pace counts until
-- there are twice as many sessions. After a pause of the traffic few samples
-- cover much time: the number falls by half at most, so that not all of many
-- sessions send at once.
local function auto_sessions(s, window, now)
    local passed, pace = now - s.paced, auto_pace(s)
    local least = math.max(1000, 5 * pace)
    local most = 2 * s.sessions * math.max(passed, least)
    s.paced_span = math.max(s.paced_span + math.min(window, passed + pace),
        math.min(s.paced_span + window, most))
    if passed < least then return end
    s.sessions = math.max(1, math.floor(s.paced_span / passed + 0.5),
        math.floor(s.sessions / 2))
    s.paced, s.paced_span = now, 0
end

-- Whether requests fail more often than usual, and not by chance: by more
-- than twice the deviation of that number.
local function auto_fails(s)
    local usual = s.count * (AUTO_ERRORS + 2 * s.normal) / 1000
    return s.errors > 1 and s.errors > usual + 2 * math.sqrt(usual)
end

-- Whether the limit is needed: requests wait for permits, a part of the permits
-- is in use on average, or one session had all of them in use.
local function auto_needed(s, part)
    return s.waited == 1 or s.peak >= s.found
        or math.max(1, s.sessions) * s.permits
            >= part * s.found * s.span * 1000
end

local function auto_used(s) return auto_needed(s, 0.5) end

-- What two turns of different limits differ by through chance; error: of that
-- at the limit that is tried, nil: of the last one.
local function auto_scatter(s, error)
    error = error or s.trial_error
    return math.sqrt(s.error ^ 2 + error ^ 2) * s.spread / 100
end

-- The latency of the requests, and its standard error.
local function auto_level(s)
    local good = s.count - s.errors
    local mean = s.logs / good / 1000
    return 10000 * mean, math.max(AUTO_ERROR, math.floor(10000 * math.sqrt(
        math.max(0, s.squares / good / 1000 - mean ^ 2) / good)))
end

-- Whether the latency at a higher limit that is tried has risen by more than
-- the limit, and than chance allows, or most requests fail there. The first
-- requests to end are short ones, and those that fail quickly.
local function auto_wall(s, now)
    if s.mode ~= AUTO_MODE.probe or s.tried < s.base then return false end
    if s.errors * 2 > s.count then
        return s.count >= AUTO_FEWEST and auto_fails(s)
            and (now - s.opened) * 1000 >= 2 * s.mean
    end
    if s.count - s.errors < AUTO_FEWEST then return false end
    local level, error = auto_level(s)
    return level - s.level - 10000 * math.log(s.tried / s.base)
        > AUTO_WALL * auto_scatter(s, error)
end

-- us for which a request has its permits: the latency, and more where some hang
-- until a timeout, as permits in use and requests that end say. Another limit
-- takes as long to show: the first requests to end are the quick ones.
local function auto_held(s, now)
    local mean = s.sum / math.max(1, s.count - s.errors)
    if s.errors == 0 or not auto_needed(s, AUTO_REACHED) then return mean end
    local each = s.found * (now - s.opened) / s.count
        * s.sum / math.max(1, s.permits)
    return math.max(mean, 1000 * math.min(each, AUTO_MS.held))
end

-- Whether the requests suffice for a judgement.
local function auto_enough(s, now)
    local count, limit, passed = s.count, s.found, now - s.opened
    local long = count > 0 and passed >= AUTO_MS.longest
    if long and (s.mode == AUTO_MODE.errors or not auto_used(s)) then
        return true
    end
    local each = math.min(math.max(s.sessions, 1), AUTO_EACH) * auto_pace(s)
    if s.span * 10 < each * 9 then return false end
    if s.mode == AUTO_MODE.errors then
        -- few requests show whether it is half of the rate, where that is high
        local half = count * s.before / 2000
        return count >= AUTO_FEWEST
            and math.abs(s.errors - half) > 2 * math.sqrt(half)
            or count >= (s.before < 200 and AUTO_FAILED.low or AUTO_FAILED.high)
    end
    if auto_wall(s, now) then return true end
    if count < math.max(AUTO_FEWEST, math.min(2 * limit, AUTO_MOST)) then
        return false
    end
    local longer = AUTO_LATENCIES * (1 + s.changed % 97 / 194)
    return s.errors * 2 > count and auto_fails(s)
        or passed * 1000 >= longer * auto_held(s, now)
end

-- Takes off the times of a sample how far the session is from the fleet, whose
-- usual time is the mean of that of its sessions: it moves with each of them.
local function auto_near(s, sample)
    if sample.usual == 0 or s.sessions < 2 then return end
    if s.usual_of == 0 then s.usual = sample.usual end
    s.usual_of = math.min(s.usual_of + 1, AUTO_USUAL)
    s.usual = s.usual + (sample.after - sample.usual) / s.sessions
    local away = sample.usual - s.usual
    s.usual = s.usual + away / s.usual_of
    local most = math.max(0, 2 * math.abs(away) - 2 * AUTO_NODES)
    away = math.max(-most, math.min(most, away)) / 10000
    local good = sample.count - sample.errors
    sample.squares = sample.squares - 2 * away * sample.logs
        + 1000 * good * away ^ 2
    sample.logs = sample.logs - 1000 * good * away
end

-- Adds a sample of one session. Returns whether the requests suffice for a
-- judgement. Requests of before the last change do not count.
local function auto_add(s, sample, now)
    auto_sessions(s, sample.window, now)
    auto_near(s, sample)
    local settled = s.changed + math.min(s.mean / 500, AUTO_MS.settle)
    if now - sample.window < settled then return false end
    if s.span == 0 then s.opened = now - sample.window end
    for _, field in ipairs({ 'count', 'sum', 'logs', 'squares', 'errors' }) do
        s[field] = s[field] + sample[field]
    end
    s.span = s.span + sample.window
    s.permits = s.permits + sample.sum * (sample.weight / 1000)
    s.peak = math.max(s.peak, sample.peak)
    if sample.waiting then s.waited = 1 end
    return auto_enough(s, now)
end

-- A limit below the first one has shown nothing: it is tried again, at most as
-- often as AUTO_FIRST says; more: false, no more.
local function auto_again(s, more)
    s.lost = more and 2 * math.floor(s.lost / 2) + 2 or 0
    if s.lost == 0 then s.up, s.step = 1, AUTO_FAR end
end

-- Requests fail more often than usual: a lower limit shows whether that
-- helps, the limit found where another one is tried. A higher one that is tried
-- has not been judged: it is no limit of before. Where most fail there, they
-- may have hung until a timeout: the last of them end as late, and to try it
-- again costs as much. Nor is a lower one a limit of before, unless
-- most fail, as in an outage: the first requests to end there are those of the
-- limit found that hang until their timeout. Nor is one below the first limit,
-- at which their rate would be judged slowly.
local function auto_failed(s, rate, min, now)
    local limit, kept = s.found, auto_kept(s)
    local first = s.lost < 0
    if first then auto_again(s, limit < kept) end
    if limit < kept and (first or rate < 500) then
        auto_drop(s)
        return auto_set(s, kept, now)
    end
    local lower = math.floor(limit * (1000 - math.max(100,
        math.min(rate, 500))) / 1000)
    if kept < limit then
        lower = kept
    elseif limit == s.ceiling or limit == s.ceiling - 1 then
        lower = limit - 1
    end
    auto_drop(s)
    s.mode, s.before, s.again = AUTO_MODE.errors, rate, 0
    s.base = math.min(limit, kept)
    s.ceiling, s.blamed = limit, now
    local took = kept < limit and rate >= 500 and now - s.changed or 0
    s.blamed = s.blamed + math.max(0, AUTO_MS.each * math.min(took,
        AUTO_MS.hung) - AUTO_MS.blame)
    auto_set(s, math.max(min, math.min(lower, limit - 1)), now)
    s.changed = s.changed + math.min(took, AUTO_MS.settle)
end

-- Of a limit that was lowered because of errors. Where half of it does not
-- halve their rate, their failing has nothing to do with load. Far above the
-- load that a backend takes most requests fail, at half of it too: then down
-- to the minimum. Where they fail no more, the lower limit has helped, or what
-- made them fail has ended: the limit of before is taken once more, and the
-- lower one again if it fails. It has to fail three times as often as the lower
-- one: the rate of before is the one that was high by chance.
local function auto_blame(s, rate, min, now)
    local limit, better = s.found, rate * 2 <= s.before
    if s.again > 0 then
        local lower = s.again
        s.again, s.mode = 0, AUTO_MODE.steady
        if not better and auto_fails(s) then
            s.ceiling, s.blamed = s.base, now
            auto_set(s, lower, now)
        elseif better and math.min(rate, s.gain) > AUTO_ERRORS then
            -- at both limits
            s.normal = math.max(s.normal, rate)
        end
    elseif better and limit < s.base then
        -- gain: the rate here, from which that of before is made, of the odds
        s.again, s.gain = limit, rate
        s.before = math.max(s.before,
            math.floor(6000 * rate / (1000 + 2 * rate)))
        auto_set(s, s.base, now)
    elseif better then
        s.mode = AUTO_MODE.steady
    elseif limit <= min or s.before < 500 and limit * 2 <= s.base then
        s.normal, s.mode = math.max(rate, s.before), AUTO_MODE.steady
        s.ceiling = 0
        auto_set(s, s.base, now)
    else
        auto_set(s, math.max(min, math.floor(limit / 2)), now)
    end
end

-- The highest limit that may be tried: below one that caused errors, which is
-- tried again after some time.
local function auto_top(s, max, now)
    if s.ceiling > 0 and s.found >= s.ceiling then s.ceiling = 0 end
    if s.ceiling == 0 then return max end
    local again = now - s.blamed > AUTO_MS.blame and s.found == s.ceiling - 1
    return math.min(max, again and s.ceiling or s.ceiling - 1)
end

-- The limit of the next turn of a comparison; half: it completes a pair.
local function auto_other(s, probe, half, now)
    s.mode, s.half = probe and AUTO_MODE.probe or AUTO_MODE.steady, half
    auto_set(s, probe and s.tried or s.base, now)
end

-- Begins to compare the limit found with another one, a step above or below.
-- The turn before, at the limit found, is the first one of a pair. most: the
-- longest step, nil: AUTO_FAR.
local function auto_try(s, min, max, now, most)
    local limit, top = s.found, auto_top(s, max, now)
    s.known, s.trial_error = s.level, s.error
    if limit >= top then s.up = 0 end
    if limit <= min then s.up = 1 end
    if min == top then return end
    s.step = math.max(AUTO_NEAR, math.min(s.step, most or AUTO_FAR))
    local times = math.exp(s.step / 10000)
    local other
    if s.up == 1 then
        other = math.max(limit + 1, math.floor(limit * times + 0.5))
        -- up to the limit that caused errors by halves
        if s.ceiling > 0 then
            other = math.min(other, limit + math.ceil((top - limit) / 2))
        end
    else
        other = math.min(limit - 1, math.ceil(limit / times - 0.5))
    end
    other = math.max(min, math.min(top, other))
    s.base, s.tried = limit, other
    s.gain, s.gains, s.pairs, s.rise, s.before = 0, 0, 0, 0, 0
    auto_other(s, true, 1, now)
end

-- How far a latency of the limit found is from that when the last comparison
-- began; 0: not farther than chance.
local function auto_away(s, level)
    local away = s.known > 0 and level - s.known or 0
    return math.abs(away) > math.max(AUTO_CHANGE, 3 * auto_scatter(s)) and away
        or 0
end

-- Whether limits below the first one are tried.
local function auto_first(s) return s.lost < 0 and s.up == 0 end

-- How far the first limit is below the one that others are compared with.
local function auto_above(base, min, max)
    return math.floor(10000 * math.log(base / auto_start(min, max)))
end

-- Whether most permits are idle. Of one session, as their number is not counted
-- yet.
local function auto_idle(s, now)
    return s.permits < AUTO_FIRST.busy * s.found * (now - s.opened) * 1000
end

-- The next comparison: after a rest, and at once where the latency is another
-- one than when the last one began.
local function auto_next(s, min, max, now)
    local away, known = auto_away(s, s.level), s.known
    local idle = auto_idle(s, now) or s.found <= min
    if auto_first(s) and (away ~= 0 or idle) then
        auto_again(s, not idle)
    elseif away ~= 0 then
        s.up, s.step = away < 0 and 1 or 0, math.max(s.step, math.abs(away))
        s.lost, s.rest = 0, 0
    end
    s.rest = math.max(s.rest - 1, 0)
    if s.rest > 0 then return end
    if s.lost > 1 then
        s.lost, s.up = 1, s.higher < AUTO_REST.higher and 1 or 0
        if s.higher == 0 then
            s.step = math.floor(AUTO_SCATTERS * auto_scatter(s))
        end
    end
    local most = AUTO_FAR
    if auto_first(s) then
        most = AUTO_FIRST.step + auto_above(s.found, min, max)
        s.step = most
    elseif s.known == 0 and s.up == 0 and not idle then
        -- the first comparison with a limit found before
        most = AUTO_FIRST.step
        s.step = most
    end
    auto_try(s, min, max, now, most)
    if away > 0 then s.before = known end
end

-- No limit below the first one is better: as if nothing had been compared, with
-- higher ones. Turns that were slow by chance would make the next comparison
-- long.
local function auto_anew(s, min, max, now)
    local fresh = s.mode == AUTO_MODE.steady
    s.mode, s.tried = AUTO_MODE.steady, 0
    auto_set(s, s.base, now)
    auto_again(s, false)
    s.spread, s.known = 100, 0
    if fresh then auto_try(s, min, max, now) end
end

-- Whether the limit that is tried is that of a deep step.
local function auto_deep(s)
    return s.tried * 2 < s.base - 1 and s.step <= AUTO_FAR
end

-- Whether half of the first limit is to be tried: the latency has fallen at a
-- third of it, but by less than is better.
local function auto_half(s, min, max)
    local first = auto_start(min, max)
    local distance = 10000 * math.log(s.tried / first)
    return s.lost % 2 == 0 and s.tried * 2 < first - 1
        and s.gain / s.pairs - AUTO_WORTH * distance > AUTO_FIRST.falls
end

-- How far the latency had leapt when the comparison with a lower limit began;
-- 0: it had not, or there is to be no deep step now.
local function auto_leapt(s, now)
    local rise = s.before > 0 and math.max(s.level, s.trial) - s.before or 0
    local again = s.blamed == 0 or now - s.blamed > AUTO_LEAP.ms
    return rise > AUTO_LEAP.rise and again and s.tried < s.base and rise or 0
end

-- The limit that was tried is better: the next one in that direction. After the
-- first double, one below the first limit, where the latency has not risen.
local function auto_won(s, min, max, now)
    local distance = 10000 * math.log(s.tried / s.base)
    local rise = AUTO_WORTH * distance - s.gain / s.pairs
    local low = s.lost < 0 and s.up == 1 and rise < AUTO_FIRST.rise
        and s.base > min and not auto_idle(s, now)
    local limit, most = s.tried, AUTO_FAR
    s.mode, s.tried, s.rest = AUTO_MODE.steady, 0, 0
    s.level, s.error = s.trial, s.trial_error
    s.step, s.reason = math.floor(s.step * 1.5), AUTO_REASON.probing
    auto_set(s, limit, now)
    if low then
        most = AUTO_FIRST.step + auto_above(limit, min, max)
        s.up, s.step = 0, most
    else
        s.lost = 0
    end
    auto_try(s, min, max, now, most)
end

-- It is not: a deep step, once, after a leap; else the other direction, nearer,
-- but as far after the first lower one. After both a rest, longer where
-- the latency rose much, or no higher limit may be tried.
local function auto_lost(s, min, max, now)
    local fresh, top = s.mode == AUTO_MODE.steady, auto_top(s, max, now)
    local first, leap = auto_first(s), auto_leapt(s, now)
    if first and auto_half(s, min, max) then
        s.mode, s.tried, s.lost = AUTO_MODE.steady, 0, s.lost + 1
        s.step = AUTO_FAR + auto_above(s.base, min, max)
        auto_set(s, s.base, now)
        return auto_try(s, min, max, now, s.step)
    elseif first then
        return auto_anew(s, min, max, now)
    elseif leap > 0 then
        s.mode, s.tried, s.step = AUTO_MODE.steady, 0, leap + AUTO_LEAP.deeper
        -- the limit is at least as slow as the lower one
        if s.trial > s.level then s.level, s.error = s.trial, s.trial_error end
        auto_set(s, s.base, now)
        auto_try(s, min, max, now, s.step)
        s.step = AUTO_FAR
        return
    end
    -- it was one, and in vain
    if auto_deep(s) then s.blamed = now end
    -- shorter steps than the scatter of the requests, not that of the traffic,
    -- would take many pairs each
    local shown = math.max(AUTO_NEAR, 100 * auto_scatter(s) / s.spread)
    s.lost = (s.lost > 0 or s.step <= shown) and s.lost + 1 or 0
    s.higher = s.up == 1 and s.higher + 1 or 0
    if s.reason ~= AUTO_REASON.none or s.up == 1 then
        s.step = math.floor(s.step / 2)
    end
    s.up = 1 - s.up
    s.mode, s.tried = AUTO_MODE.steady, 0
    auto_set(s, s.base, now)
    s.reason = (s.base >= max or s.base <= min) and AUTO_REASON.bound
        or s.base >= top and AUTO_REASON.errors or AUTO_REASON.latency
    if s.base >= top then
        s.rest = AUTO_REST.most
    elseif s.lost > 1 then
        s.rest = math.max(AUTO_REST.each, 2 * s.pairs, math.min(AUTO_REST.most,
            math.ceil(AUTO_REST.each * s.rise / AUTO_NEAR)))
    elseif fresh then
        auto_next(s, min, max, now)
    end
end

-- How far the mean of the pairs is from the bound, in standard errors. What
-- is known of the scatter counts as some pairs.
local function auto_sure(s, most)
    local mean, known = s.gain / s.pairs, math.min(auto_scatter(s), most)
    local squares = AUTO_PAIRS_LONG * known ^ 2
        + math.max(0, s.gains - mean * s.gain)
    return mean * math.sqrt(s.pairs * (AUTO_PAIRS_LONG + s.pairs - 1) / squares)
end

-- Whether the pairs decide. A limit below the first one is given up soon, and
-- taken after some pairs only.
local function auto_decides(s, sure, long)
    local least, bound = 1, s.pairs > 1 and AUTO_SURE or AUTO_CERTAIN
    if auto_first(s) and sure < 0 then
        bound = AUTO_LIKELY
    elseif auto_first(s) then
        least = AUTO_FIRST.pairs
    end
    return math.abs(sure) >= bound and s.pairs >= least
        or s.pairs >= (long and AUTO_PAIRS_LONG or AUTO_PAIRS)
end

-- After a turn of a comparison, and after a pair: whether the other limit is
-- better.
local function auto_compare(s, min, max, now)
    local probe = s.mode == AUTO_MODE.probe
    if s.half == 0 then return auto_other(s, not probe, 1, now) end
    local distance = 10000 * math.log(s.tried / s.base)
    local most, rise = math.abs(distance), s.trial - s.level
    local first = auto_first(s)
    -- it has to be better than the first limit
    if first then distance = distance + auto_above(s.base, min, max) end
    local worth = auto_deep(s) and not first and AUTO_WORTH_DEEP or AUTO_WORTH
    local gain = math.floor(math.max(-most, math.min(most,
        worth * distance - rise)) + 0.5)
    s.pairs, s.gain, s.gains = s.pairs + 1, s.gain + gain, s.gains + gain ^ 2
    s.rise = math.max(s.rise, rise)
    local sure, long = auto_sure(s, most), s.step > AUTO_NEAR
    if auto_decides(s, sure, long) then
        local won = sure >= (long and not first and AUTO_LIKELY or AUTO_SURE)
        local decide = won and auto_won or auto_lost
        decide(s, min, max, now)
    else
        if s.pairs % 2 == 0 then
            -- by chance
            probe = now % 65536 * 40503 % 65536 < 32768
        end
        auto_other(s, probe, 0, now)
    end
end

-- A turn of the limit found: its latency, and how much that differs from the
-- last one of that limit, as a part of what chance explains.
local function auto_turn(s, level, error, min, max, now)
    local before, was = s.level, s.error
    s.level, s.error = level, error
    if before > 0 then
        local away = math.abs(level - before)
            / math.sqrt(error ^ 2 + was ^ 2) * 100
        s.spread = math.max(100, math.floor(math.sqrt((s.spread ^ 2 * 7
            + math.min(away, 4 * s.spread) ^ 2) / 8)))
    end
    if s.tried > 0 and auto_away(s, level) * auto_away(s, before) <= 0 then
        auto_compare(s, min, max, now)
    elseif before > 0 then
        -- nothing is compared, or the backend has changed meanwhile
        s.tried, s.trial_error = 0, error
        auto_next(s, min, max, now)
    end
end

-- The requests of a limit that is used and that causes no errors.
local function auto_steady(s, min, max, now)
    local level, error = auto_level(s)
    s.mean = math.max(1, math.floor(auto_held(s, now)))
    s.latency = math.max(1, math.floor(math.exp(level / 10000)))
    level = math.floor(level)
    if s.floor == 0 or s.found <= min
        or s.mode == AUTO_MODE.probe and s.tried < s.base
        or s.mode == AUTO_MODE.steady and s.tried > s.found
    then
        s.floor = s.latency
    end
    if s.mode == AUTO_MODE.probe then
        s.trial, s.trial_error = level, error
        -- a higher limit that is not reached shows nothing
        local shows = s.tried < s.base or auto_needed(s, AUTO_REACHED)
        local judge = shows and auto_compare or auto_lost
        judge(s, min, max, now)
    else
        auto_turn(s, level, error, min, max, now)
    end
end

-- Judges the requests, and moves the limit.
local function auto_judge(s, min, max, now)
    local before, rate = s.found, math.floor(s.errors * 1000 / s.count)
    local failed = auto_fails(s)
    s.normal = math.min(s.normal, math.max(rate,
        math.floor(s.normal * 15 / 16)))
    if s.mode == AUTO_MODE.errors or failed then
        local judge = s.mode == AUTO_MODE.errors and auto_blame or auto_failed
        s.reason = AUTO_REASON.errors
        judge(s, rate, min, now)
    elseif not auto_used(s) then
        auto_stop(s, AUTO_REASON.unused, now)
    elseif s.count - s.errors < AUTO_FEWEST then
        -- failed requests say nothing of the latency
        auto_stop(s, AUTO_REASON.errors, now)
    else
        auto_steady(s, min, max, now)
    end
    if s.found == before then auto_clear(s) end
end
