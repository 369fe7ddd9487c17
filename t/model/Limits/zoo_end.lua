-- The rows of the zoo that are kept for the end: written before the rule was
-- changed for those of zoo.lua, and run when that was done.

local kit = require('kit')
local always, turns, rows = kit.always, kit.turns, kit.rows()
local row = rows.add

row('40 servers, a mix that moves: 5 ms, 5 to 20 % 500 ms', {
    servers = always(40), service = always(67), slow = 1000,
    work = function(random, now)
        local part = 0.125 + 0.075 * math.sin(now * 2 * math.pi / 60000)
        return (random() < part and 500 or 5) / 67
    end })
row('100 servers, log-normal, CV 2.9, sixty workers', {
    servers = always(100), work = kit.lognormal(1.5), workers = 60,
    slow = 1000, seconds = 120 })
row('20 servers, 10 ms, one in fifty 1 s, from 200', {
    servers = always(20), service = always(29.8), start = 200, slow = 2000,
    work = kit.mix({ 0.98, 10 }, { 0.02, 1000 }) })
row('knee 20, down for 240 s, timeouts of 1 s, 600 requests/s', {
    knee = always(20), rate = 600, seconds = 360, down = { 60, 300 },
    fate = function(now)
        return now >= 60000 and now < 300000 and 1000 or nil
    end })
row('quick 5xx, 70 %, 1 s of each 12 s', { kind = 'attack',
    servers = always(40), demand = always(300),
    fate = function(now, _, random)
        return turns(now, 1, 12) and random() < 0.7 and 5 or nil
    end })
row('30 % take 1 s, 2 s on, 2 s off, from 200', { kind = 'attack',
    servers = always(40), slow = 2000, start = 200,
    work = function(random, now)
        return turns(now, 2, 4) and random() < 0.3 and 20 or 1
    end })
row('30 % take 1 s, 16 s on, 16 s off', { kind = 'attack',
    servers = always(40), slow = 2000,
    work = function(random, now)
        return turns(now, 16, 32) and random() < 0.3 and 20 or 1
    end })
row('20 servers, exponential 5 s', { servers = always(20),
    service = always(5000), work = kit.exponential, slow = 46000,
    seconds = 3600, from = 1200 })
row('one of six nodes fails at once', { knee = always(20), workers = 6,
    demand = always(300),
    fate = function(_, _, _, worker) return worker == 1 and 10 or nil end })
row('a wall at 30, exponential', { knee = always(30),
    work = kit.exponential, slow = 460,
    curve = function(n) return n <= 30 and 1 or 0.25 end })
row('no knee (USL 0.05, 0.001), exponential', { knee = always(12),
    work = kit.exponential, slow = 700,
    curve = function(n) return 1 / (1 + 0.05 * (n - 1) + 0.001 * n * (n - 1))
    end })
row('all stops 1 s each 30 s', { servers = always(40), service = always(30),
    work = kit.exponential, slow = 500,
    stopped = function(now) return turns(now, 1, 30) end })
row('capacity half at 60 s, twice again at 120 s, exponential', {
    work = kit.exponential, slow = 460, servers = function(now)
        return now >= 60000 and now < 120000 and 20 or 40
    end, knee = always(40), grid = { 15, 20, 25, 30, 40, 50 } })
row('vendor, 50 requests/s, 503 beyond, bursts of 5', { knee = always(1000),
    service = always(300), begin = kit.vendor(50, 5, 20),
    demand = always(300),
    grid = { 8, 10, 12, 14, 15, 16, 18, 24 } })
row('retries, 2 s of patience, 1000 requests/s', { knee = always(20),
    rate = 1000, queue = 400, patience = 2000, noise = 'mixed', slow = 500 })
row('30 requests at once, each 10 s', { knee = always(20),
    demand = function(now) return turns(now, 0.1, 10) and 30 or 0 end })

return rows.list
