-- The zoo: backends and traffics for t/model/zoo, see backend.lua.
--
-- Fields of its own: kind, "attack" where clients mean it; grid: fixed limits
-- that are tried; start: the first limit, 10; down: s in which all requests
-- fail, { from, to }; slow: ms from which AIMD takes a request for slow; seed:
-- what is added to the number of a run, 0; begin(random): fields that have a
-- state, of each run.

local kit = require('kit')
local always, turns, rows = kit.always, kit.turns, kit.rows()
local row = rows.add

-- latencies that vary: 40 at once, nothing queues below
row('40 servers, always 50 ms', {
    servers = always(40), work = kit.constant })
row('40 servers, exponential 50 ms', {
    servers = always(40), work = kit.exponential, slow = 460 })
row('40 servers, 30 ms, one in ten 300 ms', {
    servers = always(40), service = always(57), slow = 600,
    work = kit.mix({ 0.9, 30 }, { 0.1, 300 }) })
row('the same, six workers, 850 requests/s', {
    servers = always(40), service = always(57), slow = 600,
    work = kit.mix({ 0.9, 30 }, { 0.1, 300 }), workers = 6, rate = 850 })
row('40 servers, log-normal, CV 2.9', {
    servers = always(40), work = kit.lognormal(1.5), slow = 1000 })
row('40 servers, 5 ms, one in ten 500 ms', {
    servers = always(40), service = always(54.5), slow = 1000,
    work = kit.mix({ 0.9, 5 }, { 0.1, 500 }) })
row('40 servers, 80 % 2 ms, 19 % 40 ms, 1 % 2 s', {
    servers = always(40), service = always(29.2), slow = 4000,
    work = kit.mix({ 0.8, 2 }, { 0.19, 40 }, { 0.01, 2000 }) })

-- outages and errors; demand: as many clients, so that quick errors are not
-- without number
row('knee 20, all fail for 120 s', { knee = always(20), seconds = 240,
    demand = always(300), down = { 60, 180 },
    fate = function(now)
        return now >= 60000 and now < 180000 and 50 or nil
    end })
row('knee 20, down for 60 s, timeouts of 5 s', { knee = always(20),
    seconds = 240, down = { 60, 120 },
    fate = function(now)
        return now >= 60000 and now < 120000 and 5000 or nil
    end })

-- clients that mean it
row('quick 5xx, 70 %, 3 s of each 25 s', { kind = 'attack',
    servers = always(40), demand = always(300),
    fate = function(now, _, random)
        return turns(now, 3, 25) and random() < 0.7 and 5 or nil
    end })
row('30 % take 1 s, every other second', { kind = 'attack',
    servers = always(40), slow = 2000,
    work = function(random, now)
        return turns(now, 1, 2) and random() < 0.3 and 20 or 1
    end })
row('30 % take 1 s, 4 s on, 4 s off', { kind = 'attack',
    servers = always(40), slow = 2000,
    work = function(random, now)
        return turns(now, 4, 8) and random() < 0.3 and 20 or 1
    end })
row('20 % take 2 s, bursts of 0.5 to 3 s', { kind = 'attack',
    servers = always(40), slow = 4000, begin = function(random)
        local bursts = kit.bursts(random)
        return { work = function(chance, now)
            return bursts(now) and chance() < 0.2 and 40 or 1
        end }
    end })

-- requests longer than the lease
row('20 servers, 6 s, from 1', { servers = always(20), start = 1,
    service = always(6000), seconds = 1800, from = 900 })
row('20 servers, 30 s', { servers = always(20), service = always(30000),
    seconds = 7200, from = 3600 })

-- a node with a bad network
row('one of six nodes +300 ms', { servers = always(40), workers = 6,
    extra = kit.far(300), slow = 700,
    grid = { 20, 40, 60, 80, 90, 100, 120, 160, 240 } })
row('one of six nodes +2 s', { servers = always(40), workers = 6,
    extra = kit.far(2000), slow = 4000,
    grid = { 40, 100, 160, 240, 280, 320, 360, 420, 500, 700 } })

-- a fleet's others
row('knee 7, 60 ms', { knee = always(7), service = always(60) })
row('knee 20, exponential', { knee = always(20), noise = 'exponential',
    slow = 460 })
row('a wall: beyond 12 each takes four times as long', {
    curve = function(n) return n <= 12 and 1 or 0.25 end,
    knee = always(12) })

-- other backends
row('knee 20', { knee = always(20) })
row('knee 20, from 1', { knee = always(20), start = 1 })
row('knee 20, from 200', { knee = always(20), start = 200 })
row('knee 300', { knee = always(300), seconds = 60, from = 20 })
row('no knee (USL 0.02, 0.0005)', { knee = always(20),
    curve = function(n) return 1 / (1 + 0.02 * (n - 1) + 0.0005 * n * (n - 1))
    end })
row('all stops 200 ms each 5 s', { servers = always(40), service = always(30),
    work = kit.exponential, slow = 500,
    stopped = function(now) return turns(now, 0.2, 5) end })
row('cold start, five times slower at first', { servers = always(40),
    work = kit.exponential, slow = 700,
    service = function(now) return 50 * (1 + 4 * math.exp(-now / 20000)) end })
row('fails beyond 20', { knee = always(1000), cliff = always(20),
    demand = always(300),
    grid = { 10, 15, 20, 21, 25 } })
row('vendor, 200 requests/s, 503 beyond', { knee = always(1000),
    service = always(100), begin = kit.vendor(200, 20, 20),
    demand = always(300),
    grid = { 10, 15, 18, 19, 20, 21, 24, 30 } })
row('less than 1 ms, knee 8', { knee = always(8), service = always(0.8),
    seconds = 40, from = 15 })

-- other traffics
row('load of a day in 120 s', { knee = always(20), seconds = 360,
    rate = function(now)
        return 400 * (0.8 + 0.5 * math.sin(now * 2 * math.pi / 120000))
    end })
row('capacity twice at 60 s, half again at 120 s', { knee = function(now)
        return now >= 60000 and now < 120000 and 40 or 20
    end, grid = { 15, 20, 25, 30, 40, 50 } })
row('retries, 1 s of patience', { knee = always(20), rate = 440, queue = 200,
    patience = 1000 })
row('few requests, 5/s', { knee = always(20), rate = 5 })

return rows.list
