-- Rows of the zoo that were kept for a change of what the rule does beyond a
-- wall: written when zoo_last.lua had been seen, and before the change was run
-- with them. Walls of other heights, shapes and times, walls that move, and
-- what a longer rest could harm: backends that change, outages, attacks.

local kit = require('kit')
local always, turns, rows = kit.always, kit.turns, kit.rows()
local row = function(name, of)
    of.seed = 20
    return rows.add(name, of)
end

local function wall(at, part)
    return function(n) return n <= at and 1 or part end
end

row('a wall at 8, ten times as long', {
    knee = always(8), curve = wall(8, 0.1) })
row('a wall at 25, twice as long, exponential', {
    knee = always(25), work = kit.exponential, slow = 460,
    curve = wall(25, 0.5) })
row('a wall at 100, four times as long, log-normal, CV 1.3, four workers', {
    knee = always(100), work = kit.lognormal(1), workers = 4, slow = 500,
    curve = wall(100, 0.25) })
row('a wall at 16, 200 ms, five times as long, 96 requests/s', {
    knee = always(16), service = always(200), rate = 96, slow = 800,
    curve = wall(16, 0.2) })
row('a wall at 24, three times as long, load of a day in 120 s', {
    knee = always(24), seconds = 360, curve = wall(24, 1 / 3),
    rate = function(now)
        return 480 * (0.8 + 0.5 * math.sin(now * 2 * math.pi / 120000))
    end })
row('beyond 20 the throughput falls as 1 / n', {
    knee = always(20),
    curve = function(n) return n <= 20 and 1 or (20 / n) ^ 2 end })
row('beyond 30 each is e times slower for ten more, exponential', {
    knee = always(30), work = kit.exponential, slow = 460,
    curve = function(n) return n <= 30 and 1 or math.exp((30 - n) / 10) end })
row('no knee (USL 0.01, 0.003), exponential', {
    knee = always(16), work = kit.exponential, slow = 700,
    curve = function(n) return 1 / (1 + 0.01 * (n - 1) + 0.003 * n * (n - 1))
    end })
row('60 shared, exponential', {
    knee = always(60), noise = 'exponential', slow = 460 })
row('a wall at 15, at 30 from 60 s to 120 s, four times as long', {
    seconds = 180, knee = always(20), begin = function()
        local at = 15
        return {
            service = function(now)
                at = now >= 60000 and now < 120000 and 30 or 15
                return 50
            end,
            curve = function(n) return n <= at and 1 or 0.25 end }
    end, grid = { 10, 12, 15, 20, 25, 30, 40 } })
row('a wall at 20, at 60 from 90 s on, exponential, four workers', {
    seconds = 240, from = 90, knee = always(60), workers = 4,
    work = kit.exponential, slow = 460, begin = function()
        local at = 20
        return {
            service = function(now)
                at = now >= 90000 and 60 or 20
                return 50
            end,
            curve = function(n) return n <= at and 1 or 0.25 end }
    end, grid = { 15, 20, 30, 40, 50, 60, 70 } })
row('25 servers, 50 of them from 60 s to 120 s, one in ten 8 times as long', {
    noise = 'mixed', slow = 700, workers = 3, servers = function(now)
        return now >= 60000 and now < 120000 and 50 or 25
    end, grid = { 15, 20, 25, 30, 40, 50, 60 } })
row('a knee at 20, at 60 from 90 s on', { seconds = 180, from = 90,
    knee = function(now) return now >= 90000 and 60 or 20 end,
    grid = { 20, 30, 40, 50, 60, 70, 80 } })
row('12 servers, 120 ms, exponential, from 60', {
    servers = always(12), service = always(120), start = 60, slow = 1100,
    work = kit.exponential })
row('all stops 500 ms each 8 s, log-normal, CV 1.3', {
    servers = always(30), service = always(30), slow = 500,
    work = kit.lognormal(1),
    stopped = function(now) return turns(now, 0.5, 8) end })
row('a wall at 12, four times as long, all fail for 90 s', {
    knee = always(12), curve = wall(12, 0.25), seconds = 210,
    demand = always(200), down = { 60, 150 },
    fate = function(now)
        return now >= 60000 and now < 150000 and 100 or nil
    end })
row('25 servers, exponential, down for 45 s, timeouts of 2 s', {
    servers = always(25), work = kit.exponential, slow = 460, seconds = 180,
    down = { 60, 105 },
    fate = function(now)
        return now >= 60000 and now < 105000 and 2000 or nil
    end })
row('25 % take 1.5 s, 3 s of each 7 s', { kind = 'attack',
    servers = always(30), slow = 3000,
    work = function(random, now)
        return turns(now, 3, 7) and random() < 0.25 and 30 or 1
    end })
row('10 % take 4 s, bursts of 0.5 to 3 s, exponential', { kind = 'attack',
    servers = always(50), slow = 8000, begin = function(random)
        local bursts = kit.bursts(random)
        return { work = function(chance, now)
            return bursts(now) and chance() < 0.1 and 80
                or kit.exponential(chance)
        end }
    end })
row('quick 5xx, 60 %, 2 s of each 9 s', { kind = 'attack',
    servers = always(25), demand = always(200),
    fate = function(now, _, random)
        return turns(now, 2, 9) and random() < 0.6 and 5 or nil
    end })

return rows.list
