-- A simulated backend with the requests of a fleet, event by event. It serves
-- up to its knee in its service time; with more requests it shares its power
-- among them (processor sharing), so the latency grows with their number.
--
-- Called by: t/model/limits. run() calls the limiter: limiter.limit is in
-- force, limiter:done(worker, now, latency, failed, running) after each
-- request, limiter:tick(now) at limiter.next. Times are in ms.

local backend = {}
local floor, huge, max, min = math.floor, math.huge, math.max, math.min
local log, random, remove = math.log, math.random, table.remove

-- A binary heap of { key, ... }, the lowest key first.
local function push(heap, item)
    local i = #heap + 1
    while i > 1 do
        local up = floor(i / 2)
        if heap[up][1] <= item[1] then break end
        heap[i] = heap[up]
        i = up
    end
    heap[i] = item
end

local function pop(heap)
    local top, last = heap[1], remove(heap)
    local size, i = #heap, 1
    if size == 0 then return top end
    while 2 * i <= size do
        local down = 2 * i
        if down < size and heap[down + 1][1] < heap[down][1] then
            down = down + 1
        end
        if last[1] <= heap[down][1] then break end
        heap[i] = heap[down]
        i = down
    end
    heap[i] = last
    return top
end

-- The work of one request, in ms: by noise the same for all, exponential, or
-- of two sizes, one in ten eight times as long.
local function work(noise)
    if noise == 'exponential' then
        return -log(1 - random())
    elseif noise == 'mixed' then
        return random() < 0.1 and 4.706 or 0.588
    end
    return 0.95 + 0.1 * random()
end

-- of: knee(now), service(now) in ms (functions), cliff (requests beyond it fail
-- in a fifth of the time), noise, rate (requests per second that arrive, nil:
-- more than can be served), workers, seconds, over(trace) (true: it ends before
-- that). Returns lists of times, latencies (of requests that did not fail) and
-- limits, and the number of failed ones.
function backend.run(of, limiter)
    local now, virtual, running, waiting = 0, 0, {}, 0
    local ends = of.seconds * 1000
    local seen = { at = {}, latency = {}, trace = {}, failed = 0, sent = 0 }
    local arrival = of.rate and 0 or huge
    local traced, turn = 0, 0
    local demand = of.demand or function() return huge end

    local function speed()
        local knee = of.knee and of.knee(now) or huge
        return min(1, knee / max(#running, 1)) / of.service(now)
    end
    local function start()
        turn = turn % of.workers + 1
        local failing = of.cliff and #running >= of.cliff(now)
        seen.sent = seen.sent + 1
        push(running, { virtual + (failing and 0.2 or work(of.noise)), now,
            turn, failing })
    end
    local function fill()
        local most = min(limiter.limit, demand(now))
        while #running < most and (not of.rate or waiting > 0) do
            if of.rate then waiting = waiting - 1 end
            start()
        end
    end

    while now < ends do
        fill()
        local rate = speed()
        local finish = #running > 0 and now + (running[1][1] - virtual) / rate
            or huge
        local step = min(finish, limiter.next or huge, arrival,
            traced, now + 50)
        virtual = virtual + (step - now) * rate
        now = step
        if now >= traced then
            seen.trace[#seen.trace + 1] = limiter.limit
            traced = traced + 100
            if of.over and of.over(seen.trace) then break end
        elseif now >= arrival then
            waiting = min(waiting + 1, 200)
            arrival = now - log(1 - random()) * 1000 / of.rate
        elseif limiter.next and now >= limiter.next then
            limiter:tick(now, not of.rate and demand(now) > limiter.limit
                or waiting > 0)
        elseif now >= finish then
            local request = pop(running)
            local latency = max(now - request[2], 0.01)
            if request[4] then
                seen.failed = seen.failed + 1
            else
                seen.at[#seen.at + 1] = now
                seen.latency[#seen.latency + 1] = latency
            end
            limiter:done(request[3], now, latency, request[4], #running + 1)
        end
    end
    return seen
end

return backend
