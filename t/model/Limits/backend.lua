-- A simulated backend with the requests of a fleet, event by event.
--
-- Called by: t/model/limits, t/model/zoo. run() calls the limiter:
-- limiter.limit is in force, limiter:done(worker, now, latency, failed,
-- running, held) after each request, limiter:tick(now, waiting) at
-- limiter.next, limiter:full(worker) at a rejection where it has that. Times
-- are in ms.
--
-- A backend is a table. How much it serves, functions of the time:
--   knee(now)      it shares its power among its requests (processor sharing):
--                  up to so many each has all that it can use
--   servers(now)   it serves so many, first come, first served
--   curve(n)       the speed of each of n requests
--   service(now)   the time of a mean request alone, 50
--   stopped(now)   nothing goes on
-- Its requests:
--   work(random, now)  of one request, 1 is a mean one; or noise
--   fate(now, running, random, worker)  ms after which it fails, nil: it is
--                  served; cliff(now): more than so many fail, in a fifth of
--                  the service time
--   extra(worker)  ms on the network, in which the backend has nothing to do
-- The clients: without end, or demand(now) of them, each with a request at any
-- time; or rate(now) requests a second, of which queue (200) may wait, for 5 s;
-- with patience (ms) a client leaves after that time, the backend goes on, and
-- a request that failed or was left comes again, three times.
--
-- Others: workers, seconds, from (s; what is before it is not measured), over(
-- trace) (true: the run ends), random.

local backend = {}
local floor, huge, max, min = math.floor, math.huge, math.max, math.min
local log, remove = math.log, table.remove

-- ms of a request in the queue of nginx; until a client tries again; times
local TIMEOUT, AGAIN, TIMES = 5000, 200, 3
-- ms between two looks at what changes with time
local STEP = 50

-- A binary heap of { key, ... }, the lowest key first.
local function push(heap, item)
    local i = #heap + 1
    local key = item[1]
    while i > 1 do
        local up = floor(i / 2)
        if heap[up][1] <= key then break end
        heap[i] = heap[up]
        i = up
    end
    heap[i] = item
end

local function pop(heap)
    local top, last = heap[1], remove(heap)
    local size, i = #heap, 1
    if size == 0 then return top end
    local key = last[1]
    while 2 * i <= size do
        local down = 2 * i
        if down < size and heap[down + 1][1] < heap[down][1] then
            down = down + 1
        end
        if key <= heap[down][1] then break end
        heap[i] = heap[down]
        i = down
    end
    heap[i] = last
    return top
end

-- Random numbers that are the same in each version of Lua.
function backend.random(seed)
    local x = seed * 16807 + 12345
    local function random()
        x = x * 16807 % 2147483647
        return x / 2147483647
    end
    for _ = 1, 10 do random() end
    return random
end

-- The work of one request by the noise: the same for all, exponential, or of
-- two sizes, one in ten eight times as long.
local function noisy(noise)
    if noise == 'exponential' then
        return function(random) return -log(1 - random()) end
    elseif noise == 'mixed' then
        return function(random) return random() < 0.1 and 4.706 or 0.588 end
    end
    return function(random) return 0.95 + 0.1 * random() end
end

-- What is counted of a run. good: answered in at most twice the time that the
-- request alone takes, or a mean one if that is longer; power: the sum of that
-- time over the time that it took, by request.
local function counters()
    return { at = {}, latency = {}, trace = {}, failed = 0, sent = 0,
        served = 0, good = 0, power = 0, slower = 0, seconds = {} }
end

function backend.run(of, limiter)
    local random = of.random or math.random
    local now, virtual, running = 0, 0, 0
    -- requests that are served, by virtual time; that wait in the backend; that
    -- fail or are on the network, by time
    local inside, queue, first, last, outside = {}, {}, 1, 0, {}
    -- clients that wait in nginx, in order; times at which they act
    local waiting, wfirst, wlast, clients = {}, 1, 0, {}
    local held = {}
    for i = 1, of.workers do held[i] = 0 end
    local ends, from = of.seconds * 1000, (of.from or 0) * 1000
    local seen = counters()
    local rate = type(of.rate) == 'number' and function() return of.rate end
        or of.rate
    local arrival = rate and 0 or huge
    local traced, turn, look = 0, 0, 0
    local demand = of.demand or function() return huge end
    local service = of.service or function() return 50 end
    local work = of.work or noisy(of.noise)
    local room, patience = of.queue or 200, of.patience
    local servers, curve, extra = of.servers, of.curve, of.extra
    local fate, stopped, lists = of.fate, of.stopped, not of.lean
    local count, unit = 0, 1

    local function speed()
        if stopped and stopped(now) then return 0 end
        unit = service(now)
        if servers then return 1 / unit end
        local n = #inside
        if curve then return curve(max(n, 1)) / unit end
        local knee = of.knee and of.knee(now) or huge
        return min(1, knee / max(n, 1)) / unit
    end

    local function start(client)
        turn = turn % of.workers + 1
        local fails
        if of.cliff and running >= of.cliff(now) then
            fails = 0.2 * service(now)
        elseif fate then
            fails = fate(now, running, random, turn)
        end
        running = running + 1
        held[turn] = held[turn] + 1
        seen.sent = seen.sent + 1
        local request = { 0, now, turn, fails, 0, client, 0 }
        if fails then
            request[1] = now + fails
            push(outside, request)
            return
        end
        local w = work(random, now)
        local far = extra and extra(turn) or 0
        request[5] = max(w, 1) * service(now) + far
        request[7] = far
        if servers and #inside >= servers(now) then
            request[1], last = w, last + 1
            queue[last] = request
        else
            request[1] = virtual + w
            push(inside, request)
        end
    end

    -- A request of a client that has not left.
    local function wait(client)
        if wlast - wfirst + 1 >= room then
            seen.rejected = (seen.rejected or 0) + 1
            if limiter.full then limiter:full(floor(random() * of.workers) + 1)
            end
            if patience and client[2] < TIMES then
                push(clients, { now + AGAIN, client[2] + 1 })
            end
            client[3] = true
            return
        end
        wlast = wlast + 1
        waiting[wlast] = client
        if patience then push(clients, { now + patience, client }) end
    end

    local function fill()
        if rate then
            while running < limiter.limit and wfirst <= wlast do
                local client = waiting[wfirst]
                waiting[wfirst] = nil
                wfirst = wfirst + 1
                if not client[3] and now - client[1] < TIMEOUT then
                    start(client)
                end
            end
            return
        end
        local most = min(limiter.limit, demand(now))
        while running < most do start() end
    end

    local function finish(request)
        local latency = max(now - request[2], 0.01)
        local failed, client = request[4], request[6]
        local worker = request[3]
        if failed then
            seen.failed = seen.failed + 1
        elseif lists then
            count = count + 1
            seen.at[count], seen.latency[count] = now, latency
        end
        local left = client and client[3]
        if client and not left then
            client[3] = true
            if failed and patience and client[2] < TIMES then
                push(clients, { now + AGAIN, client[2] + 1 })
            end
        end
        if not failed and not left then
            local good = latency <= 2 * request[5] and 1 or 0
            local second = floor(now / 1000)
            seen.seconds[second] = (seen.seconds[second] or 0) + good
            if now >= from then
                seen.served = seen.served + 1
                seen.good = seen.good + good
                seen.power = seen.power + min(1, request[5] / latency)
                seen.slower = seen.slower + latency / request[5]
            end
        end
        limiter:done(worker, now, latency, failed, running, held[worker])
        running = running - 1
        held[worker] = held[worker] - 1
    end

    -- One that is served leaves, and another one of the queue is served.
    local function served()
        local request = pop(inside)
        if servers then
            while first <= last and #inside < servers(now) do
                local following = queue[first]
                queue[first] = nil
                first = first + 1
                following[1] = virtual + following[1]
                push(inside, following)
            end
        end
        if request[7] > 0 then
            request[1] = now + request[7]
            push(outside, request)
        else
            finish(request)
        end
    end

    -- A client has no more patience, or tries again.
    local function act()
        local event = pop(clients)
        local client = event[2]
        if type(client) == 'number' then
            wait({ now, client, false })
        elseif not client[3] then
            client[3] = true
            if client[2] < TIMES then
                push(clients, { now + AGAIN, client[2] + 1 })
            end
        end
    end

    while now < ends do
        fill()
        local per_ms = speed()
        local done = #inside > 0 and per_ms > 0
            and now + max(0, inside[1][1] - virtual) / per_ms or huge
        local out = #outside > 0 and outside[1][1] or huge
        local client = #clients > 0 and clients[1][1] or huge
        local step = min(min(done, out), min(limiter.next or huge, arrival),
            min(traced, look), client)
        step = max(step, now)
        virtual = virtual + (step - now) * per_ms
        now = step
        if now >= look then
            look = look + STEP
        elseif now >= traced then
            seen.trace[#seen.trace + 1] = limiter.limit
            traced = traced + 100
            if of.over and of.over(seen.trace) then break end
        elseif now >= arrival then
            wait({ now, 0, false })
            local r = rate(now)
            arrival = r > 0 and now - log(1 - random()) * 1000 / r or now + 100
        elseif now >= client then
            act()
        elseif limiter.next and now >= limiter.next then
            limiter:tick(now, not rate and demand(now) > limiter.limit
                or rate and wfirst <= wlast)
        elseif now >= out then
            finish(pop(outside))
        elseif now >= done then
            served()
        end
    end
    return seen
end

return backend
