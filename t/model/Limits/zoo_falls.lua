-- Rows of the zoo that were written when all others had been seen, before a
-- far lower limit was tried where the latency rises abruptly. Walls and
-- capacity that fall to less than half of the limit in force; and requests that
-- take longer all at once, at any limit, by themselves or by clients that mean
-- it: a lower limit does not help there.

local kit = require('kit')
local always, turns, wall, rows = kit.always, kit.turns, kit.wall, kit.rows()
local row = function(name, of)
    of.seed = 70
    return rows.add(name, of)
end

-- walls and capacity that fall
row('a wall at 60, at 15 from 70 s on, three times as long, three workers', {
    knee = always(60), workers = 3, from = 70,
    grid = { 8, 10, 12, 15, 18, 25, 40, 60 },
    begin = wall(function(now) return now >= 70000 and 15 or 60 end, 1 / 3) })
row('a wall at 25, at 6 from 60 s to 120 s, eight times as long', {
    knee = always(25), from = 60, grid = { 3, 4, 5, 6, 8, 12, 20, 25, 30 },
    begin = wall(function(now)
        return now >= 60000 and now < 120000 and 6 or 25
    end, 1 / 8) })
row('a wall at 80, at 12 from 90 s on, five times as long, exponential', {
    knee = always(80), from = 90, seconds = 240, work = kit.exponential,
    slow = 460, grid = { 6, 8, 10, 12, 15, 20, 40, 80 },
    begin = wall(function(now) return now >= 90000 and 12 or 80 end, 0.2) })
row('a wall at 40, at 15 for 15 s of each 50 s, four times as long', {
    knee = always(40), seconds = 250, noise = 'mixed', slow = 500,
    grid = { 8, 10, 12, 15, 20, 30, 40, 45 },
    begin = wall(function(now) return now % 50000 >= 35000 and 15 or 40 end,
        0.25) })
row('60 servers, 10 of them from 80 s on, exponential, two workers', {
    workers = 2, work = kit.exponential, slow = 460, from = 80,
    servers = function(now) return now >= 80000 and 10 or 60 end,
    grid = { 6, 8, 10, 12, 15, 20, 40, 60 } })

-- all requests take longer at times, whatever the limit is
row('30 servers, three times as long from 60 s to 120 s', {
    servers = always(30),
    service = function(now)
        return now >= 60000 and now < 120000 and 150 or 50
    end })
row('30 servers, exponential, four times as long, 8 s of each 30 s', {
    servers = always(30), work = kit.exponential, slow = 1800, workers = 3,
    service = function(now) return turns(now, 8, 30) and 200 or 50 end })
row('each takes 500 ms, 1 s of each 5 s', { kind = 'attack',
    servers = always(40), slow = 1000,
    work = function(_, now) return turns(now, 1, 5) and 10 or 1 end })
row('80 % take 400 ms, 5 s of each 20 s, four workers', { kind = 'attack',
    servers = always(40), slow = 800, workers = 4,
    work = function(random, now)
        return turns(now, 5, 20) and random() < 0.8 and 8 or 1
    end })
row('60 % take 1 s, bursts of 0.5 to 3 s, exponential', { kind = 'attack',
    servers = always(40), slow = 2000, begin = function(random)
        local bursts = kit.bursts(random)
        return { work = function(chance, now)
            return bursts(now) and chance() < 0.6 and 20
                or kit.exponential(chance)
        end }
    end })

return rows.list
