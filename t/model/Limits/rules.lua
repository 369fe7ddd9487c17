-- The rules that t/model/limits compares, each as a limiter of backend.lua:
-- that of dsem, from lua/include/auto_rule.lua, and known ones, from what is
-- published of them. Those that are made for one process get every request
-- of the whole fleet at once, which no limiter in a process has.
--
-- Called by: t/model/limits, t/model/zoo. rules[name](start, workers, of)
-- begins one, of: the backend. Latencies are in ms; "running" counts the
-- request that ends.

local rules = {}

local function bounded(limit)
    return math.max(1, math.min(1000, limit))
end

-- The real rule, as functions of a table. path: of auto_rule.lua.
local function load_rule(path)
    local file = assert(io.open(path))
    local text = file:read('*a')
    file:close()
    return assert(loadstring(text .. ' return { new = auto_new, '
        .. 'add = auto_add, judge = auto_judge, pace = auto_pace, '
        .. 'set = auto_set, bound = auto_bound, '
        .. 'reason = AUTO_REASON }', path))()
end

-- ms of a sample that follows a request after a silence
local LONGEST = 10000

-- What one worker has of its requests, as in ngx_http_dsem_auto.c: times are in
-- whole ms, and a sample is due when the pace that it was told has passed.
local function worker_new(i)
    return { count = 0, sum = 0, logs = 0, squares = 0, errors = 0, peak = 0,
        since = 0, wait = 100 + i, next = math.huge, usual = 0, usual_of = 0 }
end

local function worker_clear(w, clock)
    w.count, w.sum, w.errors, w.peak = 0, 0, 0, 0
    w.logs, w.squares = 0, 0
    w.since, w.next = clock, math.huge
end

local function worker_add(w, now, latency, failed, held)
    local clock = math.floor(now)
    local ms = clock - math.floor(now - latency)
    if w.count == 0 and clock - w.since > ms + LONGEST then
        w.since = clock - ms
    end
    w.count, w.peak = w.count + 1, math.max(w.peak, held)
    if failed then
        w.errors = w.errors + 1
    else
        w.sum = w.sum + ms * 1000
        local log = math.log((ms + 0.5) * 1000)
        w.logs = w.logs + log * 1000
        w.squares = w.squares + log * log * 1000
    end
    if w.next == math.huge then
        w.next = math.max(w.since + w.wait, clock + 1)
    end
end

-- The usual time before and with a sample, of the last 20 s, or 200 requests.
local function worker_usual(w, window)
    local good, of = w.count - w.errors, w.usual_of
    local known, before = of >= 100, w.usual
    w.usual_of = good + math.max(of * math.max(1 - window / 20000, 0),
        math.min(of, 200))
    if good > 0 then
        w.usual = before + (w.logs / good / 1000 - before) * good / w.usual_of
    end
    return known and math.floor(before * 10000 + 0.5) or 0,
        known and math.floor(w.usual * 10000 + 0.5) or 0
end

local function worker_sample(w, clock, waiting)
    local window = math.max(clock - w.since, 1)
    local usual, after = worker_usual(w, window)
    return { count = w.count, sum = w.sum, errors = w.errors, peak = w.peak,
        logs = math.floor(w.logs + 0.5), squares = math.floor(w.squares + 0.5),
        usual = usual, after = after, window = window, weight = 1000,
        waiting = waiting }
end

-- Samples of the workers move the limit, as adjust.lua does it.
function rules.dsem(path)
    local rule = load_rule(path)
    return function(start, workers)
        local s = rule.new(start, 1, 1000, 0)
        local self = { limit = start, next = math.huge, state = s, moves = {} }
        local mine = {}
        for i = 1, workers do mine[i] = worker_new(i) end
        function self:done(worker, now, latency, failed, _, held)
            local w = mine[worker]
            worker_add(w, now, latency, failed, held)
            if w.next < self.next then self.next = w.next end
        end
        function self:full(worker)
            mine[worker].peak = math.max(mine[worker].peak, self.limit)
        end
        local function send(w, now, waiting)
            local clock = math.floor(now)
            local sample = worker_sample(w, clock, waiting)
            worker_clear(w, clock)
            local before, reason = s.found, s.reason
            rule.bound(s, 1, 1000, clock)
            if rule.add(s, sample, clock) then
                rule.judge(s, 1, 1000, clock)
            end
            if s.found ~= before or s.reason ~= reason then
                self.moves[#self.moves + 1] = string.format(
                    '%7d %4d reason %d floor %d latency %d mode %d', clock,
                    s.found, s.reason, s.floor, s.latency, s.mode)
            end
            self.limit = s.found
            w.wait = rule.pace(s)
        end
        function self:tick(now, waiting)
            self.next = math.huge
            for _, w in ipairs(mine) do
                if w.next <= now then send(w, now, waiting) end
                self.next = math.min(self.next, w.next)
            end
        end
        return self
    end
end

-- Additive increase, multiplicative decrease: by errors, or by a latency above
-- twice the service time of the scenarios, or what else is slow for them, which
-- has to be configured.
function rules.aimd(start, _, of)
    local self, slow = { limit = start }, of and of.slow or 100
    function self:done(_, _, latency, failed, running)
        if failed or latency > slow then
            self.limit = bounded(self.limit * 0.9)
        elseif running * 2 >= self.limit then
            self.limit = bounded(self.limit + 1 / self.limit)
        end
    end
    return self
end

-- TCP Vegas as a limiter (concurrency-limits, VegasLimit): 3 to 6 log10(limit)
-- requests queue; the shortest latency is forgotten after 30 limits of
-- requests.
function rules.vegas(start)
    local self, shortest, probes = { limit = start }, 0, 0
    function self:done(_, _, latency, failed, running)
        probes = probes + 1
        if probes > 30 * self.limit then shortest, probes = 0, 0 end
        if shortest == 0 or latency < shortest then
            shortest = latency
            return
        end
        local root = math.max(1, math.log10(self.limit))
        local queued = math.ceil(self.limit * (1 - shortest / latency))
        if failed then
            self.limit = bounded(self.limit - root)
        elseif running * 2 < self.limit then
            return
        elseif queued <= root then
            self.limit = bounded(self.limit + 6 * root)
        elseif queued < 3 * root then
            self.limit = bounded(self.limit + root)
        elseif queued > 6 * root then
            self.limit = bounded(self.limit - root)
        end
    end
    return self
end

-- Gradient2 (concurrency-limits): the mean of 600 requests over the last
-- latency, tolerance 1.5, room for 4 requests that queue, smoothed by 0.2.
function rules.gradient2(start)
    local self, long, seen = { limit = start }, 0, 0
    function self:done(_, _, latency, _, running)
        seen = seen + 1
        if seen <= 10 then
            long = (long * (seen - 1) + latency) / seen
        else
            long = long + (latency - long) * 2 / 601
        end
        if long / latency > 2 then long = long * 0.95 end
        if running < self.limit / 2 then return end
        local gradient = math.max(0.5, math.min(1, 1.5 * long / latency))
        self.limit = bounded(self.limit * 0.8
            + (self.limit * gradient + 4) * 0.2)
    end
    return self
end

-- Envoy's adaptive concurrency: every 100 ms the 50th percentile of the
-- latency against that of 50 requests at a limit of 3, measured every 60 s;
-- buffer 25 %, and room for sqrt(limit) requests.
function rules.envoy(start)
    local self = { limit = 3, next = 100 }
    local window, shortest, kept, again = {}, nil, start, 0
    local function median()
        table.sort(window)
        local middle = window[math.ceil(#window / 2)]
        window = {}
        return middle
    end
    function self:done(_, now, latency, failed)
        if failed then return end
        window[#window + 1] = latency
        if not shortest and #window >= 50 then
            shortest, self.limit, again = median(), kept, now + 60000
        end
    end
    function self:tick(now)
        self.next = now + 100
        if shortest and now >= again then
            shortest, kept, self.limit, window = nil, self.limit, 3, {}
        elseif shortest and #window >= 5 then
            local gradient = math.max(0.5,
                math.min(2, shortest * 1.25 / median()))
            local limit = self.limit * gradient
            self.limit = bounded(limit + math.sqrt(limit))
        end
    end
    return self
end

-- Like BBR of TCP: the largest rate of 10 rounds times the shortest latency of
-- 10 s, times 5/4 and 3/4 in one of 8 rounds each; every 10 s a limit of 4.
function rules.bbr(start)
    local self = { limit = start, next = 100 }
    local rates, count, round, shortest, low, probe = {}, 0, 0, math.huge,
        math.huge, 10000
    function self:done(_, _, latency, failed)
        if failed then return end
        count = count + 1
        low = math.min(low, latency)
    end
    function self:tick(now)
        round = round + 1
        rates[round % 10] = count
        count, self.next = 0, now + 100
        shortest = math.min(shortest, low)
        if now >= probe + 200 then
            probe, shortest, low = now + 10000, low, math.huge
        elseif now >= probe then
            self.limit, low = 4, now == probe and math.huge or low
            return
        end
        local most = 0
        for _, rate in pairs(rates) do most = math.max(most, rate) end
        local gain = ({ [0] = 1.25, 0.75 })[round % 8] or 1
        if shortest < math.huge and round > 1 then
            self.limit = bounded(math.ceil(gain * most / 100 * shortest))
        end
    end
    return self
end

-- A limit that is configured.
function rules.fixed(limit)
    return function() return { limit = limit, done = function() end } end
end

return rules
