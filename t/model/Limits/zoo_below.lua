-- Rows of the zoo that were written when all others had been seen, before the
-- rule was changed for those that had less than 0.9: of the same kinds, with
-- other numbers and seeds. Run once, when that was done.

local kit = require('kit')
local always, turns, wall, rows = kit.always, kit.turns, kit.wall, kit.rows()
local row = function(name, of)
    of.seed = 80
    return rows.add(name, of)
end

-- walls below the first limit
row('a wall at 7, six times as long', { knee = always(7),
    grid = { 3, 5, 6, 7, 8, 10, 14 },
    curve = function(n) return n <= 7 and 1 or 1 / 6 end })
row('a wall at 6, four times as long, exponential, two workers', {
    knee = always(6), work = kit.exponential, workers = 2, slow = 460,
    grid = { 3, 4, 5, 6, 7, 8, 12 },
    curve = function(n) return n <= 6 and 1 or 0.25 end })

-- walls and capacity that fall
row('a wall at 70, at 20 from 75 s on, three times as long, two workers', {
    knee = always(70), workers = 2, from = 75,
    grid = { 12, 16, 18, 20, 25, 40, 60, 70 },
    begin = wall(function(now) return now >= 75000 and 20 or 70 end, 1 / 3) })
row('a wall at 45, at 18 for 12 s of each 45 s, five times as long', {
    knee = always(45), seconds = 250, slow = 500,
    grid = { 10, 14, 18, 25, 35, 45, 50 },
    begin = wall(function(now) return now % 45000 >= 33000 and 18 or 45 end,
        0.2) })
row('80 servers, 16 of them from 70 s on, exponential, three workers', {
    workers = 3, work = kit.exponential, slow = 460, from = 70,
    servers = function(now) return now >= 70000 and 16 or 80 end,
    grid = { 8, 12, 14, 16, 20, 30, 50, 80 } })

-- nodes
row('one of four nodes: 40 % time out after 2 s, exponential', {
    servers = always(24), workers = 4, work = kit.exponential, slow = 460,
    demand = always(300), grid = { 20, 25, 30, 40, 60, 80, 100, 130 },
    fate = function(_, _, random, worker)
        return worker == 1 and random() < 0.4 and 2000 or nil
    end })
row('two of eight nodes, +300 ms and +1 s, exponential', {
    servers = always(40), workers = 8, work = kit.exponential, slow = 2500,
    extra = function(worker)
        return worker == 1 and 1000 or worker == 2 and 300 or 0
    end,
    grid = { 40, 60, 80, 100, 130, 160, 200, 250, 320 } })

-- errors
row('vendor, 60 requests/s, 503 beyond, log-normal, CV 0.8, four workers', {
    knee = always(1000), workers = 4, service = always(250),
    work = kit.lognormal(0.7), slow = 2000, demand = always(300),
    begin = kit.vendor(60, 10, 20), grid = { 9, 11, 13, 14, 15, 16, 18, 22 } })
row('beyond 18 timeouts of 2 s', { knee = always(1000), demand = always(300),
    grid = { 10, 14, 16, 18, 19, 22 },
    fate = function(_, n) return n >= 18 and 2000 or nil end })

-- clients that mean it
row('40 % take 800 ms, 3 s on, 3 s off, from 150', { kind = 'attack',
    servers = always(30), slow = 1600, start = 150,
    work = function(random, now)
        return turns(now, 3, 6) and random() < 0.4 and 16 or 1
    end })
row('25 % take 1.2 s, 2.5 s of each 6 s, exponential', { kind = 'attack',
    servers = always(35), slow = 2400,
    work = function(random, now)
        return turns(now, 2.5, 6) and random() < 0.25 and 24
            or kit.exponential(random)
    end })
row('35 % take 600 ms, every third second, two workers', { kind = 'attack',
    servers = always(25), slow = 1200, workers = 2,
    work = function(random, now)
        return turns(now, 1, 3) and random() < 0.35 and 12 or 1
    end })

-- others
row('no knee (USL 0.04, 0.0015), exponential', {
    knee = always(14), work = kit.exponential, slow = 700,
    curve = function(n) return 1 / (1 + 0.04 * (n - 1) + 0.0015 * n * (n - 1))
    end })

return rows.list
