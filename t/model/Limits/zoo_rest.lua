-- Rows of the zoo that were kept for the same change as those of zoo_walls.lua,
-- written when these had been seen, before the rule that ends turns early.

local kit = require('kit')
local always, turns, rows = kit.always, kit.turns, kit.rows()
local row = function(name, of)
    of.seed = 30
    return rows.add(name, of)
end

-- A wall at first, that is at other between these times, in s; others beyond it
-- have this part of the speed.
local function moving(first, other, from, to, part)
    return kit.wall(function(now)
        return now >= from * 1000 and now < to * 1000 and other or first
    end, part)
end

row('a wall at 18, three times as long, exponential', {
    knee = always(18), work = kit.exponential, slow = 460,
    curve = function(n) return n <= 18 and 1 or 1 / 3 end })
row('a wall at 35, twice as long', {
    knee = always(35), curve = function(n) return n <= 35 and 1 or 0.5 end })
row('a wall at 60, six times as long, log-normal, CV 1.3, two workers', {
    knee = always(60), work = kit.lognormal(1), workers = 2, slow = 500,
    curve = function(n) return n <= 60 and 1 or 1 / 6 end })
row('a wall at 14, 20 ms, eight times as long, one in ten 8 times as long', {
    knee = always(14), service = always(20), noise = 'mixed', slow = 300,
    curve = function(n) return n <= 14 and 1 or 1 / 8 end })
row('a wall at 40, four times as long, open load of nine tenths', {
    knee = always(40), rate = 720, slow = 300,
    curve = function(n) return n <= 40 and 1 or 0.25 end })
row('beyond 22 the throughput falls as 1 / n ^ 2, exponential', {
    knee = always(22), work = kit.exponential, slow = 460,
    curve = function(n) return n <= 22 and 1 or (22 / n) ^ 3 end })
row('no knee (USL 0.02, 0.002), one in ten 8 times as long', {
    knee = always(16), noise = 'mixed', slow = 700,
    curve = function(n) return 1 / (1 + 0.02 * (n - 1) + 0.002 * n * (n - 1))
    end })
row('a wall at 12, at 24 from 80 s to 150 s, three times as long', {
    seconds = 210, knee = always(16), begin = moving(12, 24, 80, 150, 1 / 3),
    grid = { 9, 12, 15, 18, 21, 24, 30 } })
row('a wall at 40, at 80 from 70 s on, twice as long, exponential', {
    seconds = 200, knee = always(60), work = kit.exponential, slow = 460,
    begin = moving(40, 80, 70, 1e6, 0.5), grid = { 30, 40, 50, 60, 70, 80 } })
row('a wall at 30, at 15 from 60 s to 120 s, five times as long', {
    seconds = 210, knee = always(30), begin = moving(30, 15, 60, 120, 0.2),
    grid = { 10, 15, 20, 25, 30, 35 } })
row('18 servers, 40 of them from 75 s on, exponential, two workers', {
    work = kit.exponential, slow = 460, workers = 2, servers = function(now)
        return now >= 75000 and 40 or 18
    end, grid = { 18, 24, 30, 36, 40, 48, 56 } })
row('a wall at 25, four times as long, all fail for 60 s', {
    knee = always(25), seconds = 180, demand = always(300), down = { 60, 120 },
    curve = function(n) return n <= 25 and 1 or 0.25 end,
    fate = function(now)
        return now >= 60000 and now < 120000 and 30 or nil
    end })
row('35 % take 800 ms, 2 s of each 5 s', { kind = 'attack',
    servers = always(35), slow = 1600,
    work = function(random, now)
        return turns(now, 2, 5) and random() < 0.35 and 16 or 1
    end })
row('15 % take 2 s, every third second, a wall at 45', { kind = 'attack',
    knee = always(45), slow = 4000,
    curve = function(n) return n <= 45 and 1 or 0.25 end,
    work = function(random, now)
        return turns(now, 1, 3) and random() < 0.15 and 40 or 1
    end })

return rows.list
