-- Rows of the zoo that were written when all others had been seen, before the
-- rule was changed for walls below the first limit, and run once when that was
-- done: such walls, small backends without one, and clients that mean it from
-- the start on, at another moment with each seed.

local kit = require('kit')
local always, turns, rows = kit.always, kit.turns, kit.rows()
local row = function(name, of)
    of.seed = 90
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
            return turns(now + phase, on, of) and chance() < part and long
                or usual(chance)
        end }
    end
    return row(name, fields)
end

-- walls below the first limit
row('a wall at 9, three times as long, exponential, two workers', {
    knee = always(9), work = kit.exponential, workers = 2, slow = 460,
    grid = { 5, 7, 8, 9, 10, 12, 18 }, curve = wall(9, 1 / 3) })
row('a wall at 5, five times as long', { knee = always(5),
    grid = { 2, 3, 4, 5, 6, 8, 10 }, curve = wall(5, 0.2) })
row('a wall at 4, 120 ms, eight times as long, three workers', {
    knee = always(4), service = always(120), workers = 3, slow = 300,
    grid = { 1, 2, 3, 4, 5, 6, 8 }, curve = wall(4, 1 / 8) })
row('a wall at 3, four times as long, one in ten 8 times as long', {
    knee = always(3), noise = 'mixed', slow = 500,
    grid = { 1, 2, 3, 4, 5, 6 }, curve = wall(3, 0.25) })
row('a wall at 8, twice as long', { knee = always(8),
    grid = { 4, 6, 7, 8, 9, 12, 16 }, curve = wall(8, 0.5) })

-- small ones without a wall, and a large one
row('2 servers, 80 ms, exponential', { servers = always(2),
    service = always(80), work = kit.exponential, slow = 740,
    grid = { 1, 2, 3, 4, 6 } })
row('a knee at 5, 30 ms, three workers', { knee = always(5), workers = 3,
    service = always(30), grid = { 2, 3, 4, 5, 6, 8, 10 } })
row('150 servers, log-normal, CV 1.3, four workers', {
    servers = always(150), work = kit.lognormal(1), workers = 4, slow = 300,
    seconds = 120 })

-- clients that mean it
attack('30 % take 1.5 s, 1.5 s of each 4 s, by seed', 1.5, 4, 0.3, 30, {
    servers = always(40), slow = 3000 })
attack('20 % take 900 ms, every other second, by seed, exponential', 1, 2,
    0.2, 18, { servers = always(30), slow = 1800, work = kit.exponential })
attack('50 % take 600 ms, 6 s of each 15 s, by seed, two workers', 6, 15, 0.5,
    12, { servers = always(35), slow = 1200, workers = 2 })
attack('40 % take 2 s, 0.7 s of each 3 s, by seed', 0.7, 3, 0.4, 40, {
    servers = always(50), slow = 4000 })

return rows.list
