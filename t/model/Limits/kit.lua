-- What the rows of the zoo are made of.
--
-- Called by: zoo.lua, zoo_*.lua.

local kit = {}

function kit.always(value) return function() return value end end

-- Whether it is one of the first "on" s of each "of" s.
function kit.turns(now, on, of) return now % (of * 1000) < on * 1000 end

function kit.constant() return 1 end

function kit.exponential(random) return -math.log(1 - random()) end

function kit.lognormal(sigma)
    return function(random)
        local normal = math.sqrt(-2 * math.log(1 - random()))
            * math.cos(2 * math.pi * random())
        return math.exp(sigma * normal - sigma * sigma / 2)
    end
end

-- Of { part, ms } each; the service time of the row is the mean.
function kit.mix(...)
    local kinds, mean = { ... }, 0
    for _, kind in ipairs(kinds) do mean = mean + kind[1] * kind[2] end
    return function(random)
        local x = random()
        for i = 1, #kinds - 1 do
            if x < kinds[i][1] then return kinds[i][2] / mean end
            x = x - kinds[i][1]
        end
        return kinds[#kinds][2] / mean
    end
end

-- One of six nodes has ms more on the network.
function kit.far(ms)
    return function(worker) return worker == 1 and ms or 0 end
end

-- A wall that is at where(now), beyond which others have this part of the
-- speed.
function kit.wall(where, part)
    return function()
        local at = where(0)
        return {
            service = function(now)
                at = where(now)
                return 50
            end,
            curve = function(n) return n <= at and 1 or part end }
    end
end

-- Whether there is a burst: of 0.5 to 3 s, with 1 to 6 s between two.
function kit.bursts(random)
    local on, till = false, 0
    return function(now)
        while now >= till do
            on = not on
            till = till + (on and 500 + 2500 * random()
                or 1000 + 5000 * random())
        end
        return on
    end
end

-- So many requests a second, and a burst of them; others fail after ms.
function kit.vendor(rate, burst, ms)
    return function()
        local tokens, last = burst, 0
        return { fate = function(now)
            tokens = math.min(burst, tokens + (now - last) * rate / 1000)
            last = now
            if tokens < 1 then return ms end
            tokens = tokens - 1
        end }
    end
end

-- A list of rows, and a function that adds one; begin(random): fields that have
-- a state, of each run.
function kit.rows()
    local list = {}
    local function add(name, of)
        of.name, of.kind = name, of.kind or 'row'
        of.start, of.workers = of.start or 10, of.workers or 1
        of.seconds, of.from = of.seconds or 180, of.from or 30
        of.lean = true
        if not of.grid then
            local knee = (of.servers or of.knee)(0)
            of.grid = {}
            for i, part in ipairs({ 0.5, 0.7, 0.85, 1, 1.1, 1.25, 1.5, 2 }) do
                of.grid[i] = math.floor(knee * part + 0.5)
            end
        end
        list[#list + 1] = of
    end
    return { list = list, add = add }
end

return kit
