-- Rows of the zoo that were written when all others had been seen, when limits
-- below the first one were about to be tried before higher ones, and a deep step
-- to bring half of the distance only: walls below the first limit, walls that
-- turn, others without a wall, clients that mean it.

local kit = require('kit')
local always, turns, rows = kit.always, kit.turns, kit.rows()
local row = function(name, of)
    of.seed = 110
    return rows.add(name, of)
end

local function wall(at, part)
    return function(n) return n <= at and 1 or part end
end

-- Work that is long in some turns, which begin at a moment by the seed.
local function attack(name, on, of, part, long, fields)
    fields.kind = 'attack'
    local usual = fields.work or kit.constant
    fields.begin = function(random)
        local phase = random() * of * 1000
        return { work = function(chance, now)
            return (turns(now + phase, on, of) and chance() < part and long or 1)
                * usual(chance)
        end }
    end
    return row(name, fields)
end

-- walls below the first limit
row('a wall at 3, seven times as long', { knee = always(3),
    grid = { 1, 2, 3, 4, 5, 6 }, curve = wall(3, 1 / 7) })
row('a wall at 6, 25 ms, four times as long, log-normal, CV 1.3, four workers',
    { knee = always(6), service = always(25), work = kit.lognormal(1),
    workers = 4, slow = 300, grid = { 3, 4, 5, 6, 7, 8, 12 },
    curve = wall(6, 0.25) })
row('a wall at 4, five times as long, from 6', { knee = always(4), start = 6,
    grid = { 2, 3, 4, 5, 6, 8 }, curve = wall(4, 0.2) })
row('a wall at 4, at 9 from 80 s on, four times as long', { knee = always(4),
    from = 90, grid = { 3, 4, 5, 6, 7, 8, 9, 10 },
    begin = kit.wall(function(now) return now >= 80000 and 9 or 4 end, 0.25) })
row('a wall at 7, three times as long, 5 % fail, two workers', {
    knee = always(7), workers = 2, grid = { 3, 5, 6, 7, 8, 10 },
    curve = wall(7, 1 / 3), fate = function(_, _, random)
        return random() < 0.05 and 10 or nil
    end })
row('a wall at 5, four times as long, open load of nine tenths', {
    knee = always(5), rate = 90, grid = { 3, 4, 5, 6, 8, 10 },
    curve = wall(5, 0.25) })

-- walls that turn, and requests that take longer at any limit
row('a wall at 50, at 16 for 20 s of each 70 s, three times as long', {
    knee = always(50), seconds = 280, noise = 'mixed', slow = 500,
    grid = { 8, 12, 16, 20, 30, 40, 50, 55 },
    begin = kit.wall(function(now)
        return now % 70000 >= 50000 and 16 or 50
    end, 1 / 3) })
row('a wall at 30, at 8 from 70 s on, six times as long, exponential', {
    knee = always(30), work = kit.exponential, slow = 460, from = 75,
    grid = { 4, 6, 7, 8, 9, 12, 20, 30 },
    begin = kit.wall(function(now) return now >= 70000 and 8 or 30 end,
        1 / 6) })
row('35 servers, exponential, five times as long, 6 s of each 25 s', {
    servers = always(35), work = kit.exponential, slow = 2300, workers = 2,
    service = function(now) return turns(now, 6, 25) and 250 or 50 end })

-- without a wall
row('70 servers, exponential, three workers', { servers = always(70),
    work = kit.exponential, slow = 460, workers = 3, from = 15, seconds = 120 })
row('35 servers, six times as long for 4 s', { servers = always(35), from = 10,
    seconds = 120, service = function(now) return now < 4000 and 300 or 50 end })
row('one of three nodes: 20 % time out after 1 s, exponential', {
    servers = always(30), work = kit.exponential, workers = 3, slow = 460,
    grid = { 15, 20, 25, 30, 35, 40, 50, 60 },
    fate = function(_, _, random, worker)
        return worker == 1 and random() < 0.2 and 1000 or nil
    end })

-- clients that mean it
attack('30 % take 16 times as long, 2.5 s of each 5 s, by seed, exponential',
    2.5, 5, 0.3, 16, { servers = always(35), slow = 1600,
    work = kit.exponential })
attack('each takes four times as long, 3 s of each 12 s, by seed', 3, 12, 1, 4,
    { servers = always(40), slow = 400 })
attack('25 % take 1 s, 2 s of each 7 s, by seed, a wall at 8', 2, 7, 0.25, 20,
    { knee = always(8), slow = 2000, curve = wall(8, 0.25),
    grid = { 4, 6, 7, 8, 9, 10, 14 } })

return rows.list
