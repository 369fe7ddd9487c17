-- Rows of the zoo that were written when those of zoo_end.lua had been seen,
-- before the rule was changed for any of them: other parameters, and other
-- seeds. Run when the rule was done.

local kit = require('kit')
local always, turns, rows = kit.always, kit.turns, kit.rows()
local row = function(name, of)
    of.seed = 10
    return rows.add(name, of)
end

row('one of ten nodes fails half of its requests at once', {
    servers = always(30), workers = 10, work = kit.exponential, slow = 460,
    demand = always(300), fate = function(_, _, random, worker)
        return worker == 1 and random() < 0.5 and 5 or nil
    end })
row('one of four nodes +1 s, exponential', { servers = always(60),
    workers = 4, work = kit.exponential, slow = 2000,
    extra = kit.far(1000),
    grid = { 60, 100, 150, 200, 250, 300, 350, 400, 500 } })
row('20 % take 3 s, 1 s of each 3 s, from 100', { kind = 'attack',
    servers = always(30), slow = 6000, start = 100,
    work = function(random, now)
        return turns(now, 1, 3) and random() < 0.2 and 60 or 1
    end })
row('16 servers, 20 ms, log-normal, CV 1.3, from 150', {
    servers = always(16), service = always(20), start = 150, slow = 300,
    work = kit.lognormal(1) })
row('no knee (USL 0.03, 0.0008), one in ten 8 times as long', {
    knee = always(16), noise = 'mixed', workers = 3, slow = 700,
    curve = function(n) return 1 / (1 + 0.03 * (n - 1) + 0.0008 * n * (n - 1))
    end })
row('a wall at 50, three times as long, one in ten 8 times as long', {
    knee = always(50), noise = 'mixed', workers = 3, slow = 500,
    curve = function(n) return n <= 50 and 1 or 1 / 3 end })
row('60 clients for 2 s of each 5 s, exponential', { servers = always(30),
    work = kit.exponential, slow = 460,
    demand = function(now) return turns(now, 2, 5) and 60 or 0 end })
row('30 servers, 10 of them from 90 s to 180 s, exponential, eight workers', {
    work = kit.exponential, slow = 460, workers = 8, seconds = 270,
    servers = function(now)
        return now >= 90000 and now < 180000 and 10 or 30
    end, grid = { 10, 15, 20, 25, 30, 40, 50 } })

return rows.list
