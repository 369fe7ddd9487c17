-- Rows of the zoo with requests that fail. The first six were written when a
-- lower limit was believed to have helped wherever most requests failed no
-- more, and showed that it is not so; the others when the rule had its first
-- form after that, before its last one.

local kit = require('kit')
local always, turns, rows = kit.always, kit.turns, kit.rows()
local function adder(seed)
    return function(name, of)
        of.seed, of.demand = seed, always(of.clients or 300)
        return rows.add(name, of)
    end
end
local row = adder(40)

-- This part of the requests fails after 20 ms, or ms; where(now): at times.
local function fails(part, where, ms)
    return function(now, _, random)
        return (not where or where(now)) and random() < part and (ms or 20)
            or nil
    end
end

local function wall(n) return n <= 20 and 1 or 0.25 end

row('a wall at 20, four times as long, 3 % fail', {
    knee = always(20), curve = wall, fate = fails(0.03) })
row('a wall at 20, four times as long, 8 % fail', {
    knee = always(20), curve = wall, fate = fails(0.08) })
row('30 servers, exponential, 4 % fail', { servers = always(30),
    work = kit.exponential, slow = 460, fate = fails(0.04) })
row('30 servers, exponential, 20 % fail', { servers = always(30),
    work = kit.exponential, slow = 460, fate = fails(0.2) })
row('30 servers, exponential, 20 % fail, 5 s of each 20 s', {
    servers = always(30), work = kit.exponential, slow = 460,
    fate = fails(0.2, function(now) return turns(now, 5, 20) end) })
row('quick 5xx, 30 %, 1 s of each 4 s', { kind = 'attack',
    servers = always(30), slow = 460,
    fate = fails(0.3, function(now) return turns(now, 1, 4) end) })

row = adder(50)

-- Beyond 25 the part of the requests that is too many, times part, fails.
local function beyond(part, ms)
    return function(_, n, random)
        return random() < part * (n - 25) / math.max(n, 1) and ms or nil
    end
end

row('fails beyond 20, from 200', { knee = always(1000), cliff = always(20),
    start = 200, grid = { 10, 15, 20, 21, 25 } })
row('fails beyond 100', { knee = always(1000), cliff = always(100),
    clients = 600, grid = { 50, 80, 100, 105, 120 } })
row('beyond 30 timeouts of 1 s', { knee = always(1000),
    grid = { 15, 20, 25, 30, 31, 35 },
    fate = function(_, n) return n >= 30 and 1000 or nil end })
row('fails beyond 40, beyond 15 from 60 s to 120 s', { knee = always(1000),
    cliff = function(now) return now >= 60000 and now < 120000 and 15 or 40 end,
    grid = { 10, 15, 20, 30, 40 } })
row('beyond 25 what is too much fails, exponential', { knee = always(25),
    work = kit.exponential, slow = 460, fate = beyond(1, 10),
    grid = { 10, 15, 20, 25, 27, 30, 35 } })
row('beyond 25 what is too much fails, from 150', { knee = always(25),
    start = 150, fate = beyond(1, 10),
    grid = { 10, 15, 20, 25, 27, 30, 35 } })
row('beyond 25 half of that fails in 50 ms, six workers', {
    knee = always(25), workers = 6, fate = beyond(0.5, 50),
    grid = { 10, 15, 20, 25, 27, 30, 35 } })
row('vendor, 100 requests/s, 503 beyond, exponential, six workers', {
    knee = always(1000), workers = 6, service = always(200),
    work = kit.exponential, slow = 2000, begin = kit.vendor(100, 20, 20),
    grid = { 10, 14, 16, 18, 19, 20, 21, 24, 30 } })
row('all fail, 30 s of each 90 s', { knee = always(20), seconds = 270,
    fate = fails(1, function(now) return now % 90000 > 60000 end) })
row('30 servers, exponential, down 5 s of each 20 s, timeouts of 1 s', {
    servers = always(30), work = kit.exponential, slow = 460, seconds = 240,
    fate = fails(1, function(now) return now % 20000 > 15000 end, 1000) })
row('quick 5xx, 80 %, 4 s of each 15 s, six workers', { kind = 'attack',
    servers = always(30), workers = 6,
    fate = fails(0.8, function(now) return turns(now, 4, 15) end, 5) })
row('quick 5xx, 40 %, 3 s of each 10 s', { kind = 'attack',
    servers = always(30),
    fate = fails(0.4, function(now) return turns(now, 3, 10) end, 5) })

return rows.list
