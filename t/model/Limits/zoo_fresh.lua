-- Rows of the zoo that were written when all others had been seen, before the
-- rule was changed for times by node, and for a first comparison downward.
-- Nodes whose network is bad, of which one becomes so for a while; walls that
-- come down; few servers and many, and what else was not there yet.

local kit = require('kit')
local always, turns, wall, rows = kit.always, kit.turns, kit.wall, kit.rows()
local row = function(name, of)
    of.seed = 60
    return rows.add(name, of)
end

-- nodes with a bad network
row('one of three nodes +150 ms, a knee at 24, exponential', {
    knee = always(24), workers = 3, noise = 'exponential', slow = 700,
    extra = kit.far(150), grid = { 15, 20, 25, 30, 35, 40, 50, 60, 80 } })
row('two of ten nodes, +400 ms and +1.5 s, log-normal, CV 1.3', {
    servers = always(50), workers = 10, work = kit.lognormal(1), slow = 3500,
    extra = function(worker)
        return worker == 1 and 1500 or worker == 2 and 400 or 0
    end,
    grid = { 50, 75, 100, 140, 180, 220, 260, 320, 400 } })
row('one of five nodes +500 ms from 60 s to 120 s, exponential', {
    servers = always(30), workers = 5, slow = 1500,
    grid = { 25, 30, 40, 50, 70, 90, 110, 140 },
    begin = function()
        local far = 0
        return {
            work = function(random, now)
                far = now >= 60000 and now < 120000 and 500 or 0
                return kit.exponential(random)
            end,
            extra = function(worker) return worker == 1 and far or 0 end }
    end })

-- walls that come down
row('a wall at 50, at 20 from 80 s on, four times as long', {
    knee = always(50), from = 80, grid = { 10, 15, 20, 25, 30, 40, 50, 60 },
    begin = wall(function(now) return now >= 80000 and 20 or 50 end, 0.25) })
row('a wall at 40, 4 lower each 25 s, three times as long, exponential', {
    knee = always(40), workers = 3, work = kit.exponential, slow = 460,
    grid = { 8, 12, 16, 20, 24, 28, 32, 40 },
    begin = wall(function(now) return 40 - 4 * math.floor(now / 25000) end,
        1 / 3) })
row('a wall at 30, at 10 for 20 s of each 60 s, six times as long', {
    knee = always(30), workers = 2, seconds = 240,
    grid = { 5, 8, 10, 15, 20, 25, 30, 35 },
    begin = wall(function(now) return now % 60000 >= 40000 and 10 or 30 end,
        1 / 6) })

-- others
row('3 servers, 40 ms, exponential, two workers', {
    servers = always(3), service = always(40), workers = 2, slow = 370,
    work = kit.exponential, grid = { 1, 2, 3, 4, 5, 6 } })
row('400 servers, exponential, ten workers', { servers = always(400),
    work = kit.exponential, workers = 10, slow = 460, seconds = 90, from = 45 })
row('25 servers, exponential, the time doubles and halves in 40 s', {
    servers = always(25), work = kit.exponential, slow = 600,
    service = function(now)
        return 50 * 2 ^ (0.5 * math.sin(now * 2 * math.pi / 40000))
    end })
row('25 % take 700 ms, 0.4 s of each 1 s, from 100', { kind = 'attack',
    servers = always(30), slow = 1400, start = 100,
    work = function(random, now)
        return turns(now, 0.4, 1) and random() < 0.25 and 14 or 1
    end })
row('5 clients, 100 for 10 s of each 40 s, a wall at 20, three times as long', {
    knee = always(20), slow = 300, seconds = 240,
    curve = function(n) return n <= 20 and 1 or 1 / 3 end,
    demand = function(now) return turns(now, 10, 40) and 100 or 5 end })
row('one of five nodes: 30 % time out after 1 s, exponential', {
    servers = always(30), workers = 5, work = kit.exponential, slow = 460,
    demand = always(300), grid = { 25, 30, 35, 40, 50, 60, 70, 90 },
    fate = function(_, _, random, worker)
        return worker == 1 and random() < 0.3 and 1000 or nil
    end })

return rows.list
