-- The rules that t/model/limits compares, each as a limiter of backend.lua:
-- that of dsem, from lua/include/auto_rule.lua, and known ones, from what is
-- published of them. Those that are made for one process get every request
-- of the whole fleet at once, which no limiter in a process has.
--
-- Called by: t/model/limits. rules[name](start, workers) begins one. Latencies
-- are in ms; "running" counts the request that ends.

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
        .. 'set = auto_set, reason = AUTO_REASON }', path))()
end

-- Each worker sends a sample when the pace that it was told has passed.
function rules.dsem(path)
    local rule = load_rule(path)
    return function(start, workers)
        local s = rule.new(start, 0)
        local self = { limit = start, next = 100, state = s, moves = {} }
        local mine = {}
        for i = 1, workers do
            mine[i] = { count = 0, sum = 0, errors = 0, peak = 0, last = 0,
                next = 100 + i }
        end
        function self:done(worker, _, latency, failed)
            local w = mine[worker]
            w.count = w.count + 1
            if failed then
                w.errors = w.errors + 1
            else
                w.sum = w.sum + math.floor(latency * 1000)
            end
        end
        local function send(w, now, waiting)
            local clock = math.floor(now)
            local sample = { count = w.count, sum = w.sum, errors = w.errors,
                peak = w.peak, window = clock - w.last, waiting = waiting }
            w.count, w.sum, w.errors, w.last = 0, 0, 0, clock
            local before, reason = s.found, s.reason
            if rule.add(s, sample, clock) then
                rule.judge(s, 1, 1000, clock)
            end
            if s.found ~= before or s.reason ~= reason then
                self.moves[#self.moves + 1] = string.format(
                    '%7d %4d reason %d floor %d latency %d mode %d', clock,
                    s.found, s.reason, s.floor, s.latency, s.mode)
            end
            self.limit = s.found
            w.next = clock + rule.pace(s)
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
-- twice the service time of the scenarios, which has to be configured.
function rules.aimd(start)
    local self = { limit = start }
    function self:done(_, _, latency, failed, running)
        if failed or latency > 100 then
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
