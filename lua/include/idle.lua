-- Idle permits as beats report them while semaphores are inspected: the
-- field "watched" of the shard has the clock time until which they do. The idle
-- HASH has
--   <session> <name>   the idle permits of the session in that semaphore
--   <session>          "<name> <permits> <name> <permits> ...", by its last
--                      beat
-- It is only for display: without it idle permits look used. It expires a few
-- heartbeats after the last beat that reported any.

local IDLE_MS, IDLE_NAMES = 3500, 64
-- ms, of a display that asks once
local LONGEST_WATCH = 3600000

-- ms for which idle permits are wanted; text: the field "watched", or false.
local function idle_wanted(shard, text)
    local ends = tonumber(string.match(text or '', '^%d+$'))
    local left = ends and ends - shard.clock or 0
    return left > 0 and left <= LONGEST_WATCH and left or 0
end

-- What a beat reports, ARGV[i], checked.
local function idle_argument(i)
    local text = ARGV[i]
    local names, rest = 0, (text or 'x') .. ' '
    for name, permits in string.gmatch(rest, '([^ ]+) (%d+) ') do
        names = names + (is_encoded(name) and #permits <= 10 and 1 or 1000)
    end
    if names > IDLE_NAMES or text ~= '' and (names == 0 or string.find(
        string.gsub(rest, '[^ ]+ %d+ ', ''), '.'))
    then
        error('DSEM argument ' .. i .. ' is not a list of idle permits', 0)
    end
    return text
end

-- Stores what a session reports. Where the HASH has fields of many sessions
-- that have ended it is begun anew. pcall: the heartbeat needs none of this.
local function idle_write(shard, key, session, text)
    local size = redis.pcall('HLEN', key)
    if type(size) ~= 'number'
        or size > 2 * (shard.sessions + 1) * (IDLE_NAMES + 1)
    then
        redis.pcall('UNLINK', key)
    end
    local before = redis.pcall('HGET', key, session)
    local set, gone = { 'HSET', key, session, text }, { 'HDEL', key }
    for name, permits in string.gmatch(text, '(%S+) (%d+)') do
        set[#set + 1], set[#set + 2] = session .. ' ' .. name, permits
    end
    if type(before) == 'string' and before ~= text then
        for name in string.gmatch(before, '(%S+) %d+') do
            gone[#gone + 1] = session .. ' ' .. name
        end
    end
    if text == '' then gone[#gone + 1] = session end
    if #gone > 2 then redis.pcall(unpack(gone)) end
    if text ~= '' then
        redis.pcall(unpack(set))
        redis.pcall('PEXPIRE', key, IDLE_MS)
    end
end
