-- Rows of the zoo in which requests hang until a timeout beyond a limit.
-- Written when turns there ended early and a limit was tried again later,
-- before what is left of it was waited for; the last two have such timeouts as
-- nginx has.

local kit = require('kit')
local always, rows = kit.always, kit.rows()
local row = function(name, of)
    of.seed, of.demand, of.knee = 120, always(300), always(1000)
    of.seconds = of.seconds or 240
    return rows.add(name, of)
end

local function hang(where, ms)
    return function(now, n) return n >= where(now) and ms or nil end
end

row('beyond 20 timeouts of 2 s, beyond 50 from 90 s on', { from = 90,
    grid = { 20, 50 },
    fate = hang(function(now) return now >= 90000 and 50 or 20 end, 2000) })
row('beyond 20 timeouts of 2 s, beyond 50 from 110 s on', { from = 110,
    grid = { 20, 50 },
    fate = hang(function(now) return now >= 110000 and 50 or 20 end, 2000) })
row('beyond 20 timeouts of 1 s, beyond 60 from 90 s on', { from = 90,
    grid = { 20, 60 },
    fate = hang(function(now) return now >= 90000 and 60 or 20 end, 1000) })
row('beyond 40 timeouts of 2 s, beyond 15 from 60 s to 120 s', {
    grid = { 15, 40 }, fate = hang(function(now)
        return now >= 60000 and now < 120000 and 15 or 40
    end, 2000) })
row('beyond 25 timeouts of 5 s', { seconds = 300, grid = { 15, 20, 25 },
    fate = hang(always(25), 5000) })
row('beyond 25 timeouts of 3 s, 120 ms, three workers', { seconds = 300,
    workers = 3, service = always(120), grid = { 15, 20, 25 },
    fate = hang(always(25), 3000) })
row('beyond 35 timeouts of 2 s, exponential', { work = kit.exponential,
    grid = { 15, 20, 25, 30, 35 }, fate = hang(always(35), 2000) })
row('beyond 20 half hang for 2 s', { grid = { 15, 20, 25, 30, 35 },
    fate = function(_, n, random)
        return n >= 20 and random() < 0.5 and 2000 or nil
    end })
row('beyond 60 timeouts of 10 s', { seconds = 600, from = 60,
    grid = { 40, 60 }, fate = hang(always(60), 10000) })
row('beyond 16 timeouts of 60 s', { seconds = 1200, from = 300,
    grid = { 10, 16 }, fate = hang(always(16), 60000) })

return rows.list
