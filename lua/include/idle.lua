-- Idle permits as the workers tell them, while somebody looks: the idle HASH has
-- "<clock>;<name> <permits>;<name> <permits>; ... " of each session, as of its
-- last beat; the field "watched" of the shard has the clock time until which
-- they tell. It is only for display: without it idle permits look used.

-- ms for which that is believed: some heartbeats
local IDLE_MS = 3500
-- names of one session, and bytes of them that are kept: those of all sessions
-- are read by one call
local IDLE_NAMES, IDLE_BYTES = 64, 2048
-- ms, of a display that asks once
local LONGEST_WATCH = 3600000

-- ms for which idle permits are wanted; text: the field "watched", or false.
local function idle_wanted(shard, text)
    local ends = tonumber(string.match(text or '', '^%d+$'))
    local left = ends and ends - shard.clock or 0
    return left > 0 and left <= LONGEST_WATCH and left or 0
end

-- What a beat says of idle permits, ARGV[i], checked; the names with most of
-- them first.
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
    while #text > IDLE_BYTES do
        text = string.match(text, '^(.*) %S+ %S+$')
    end
    return (string.gsub(text, '([^ ]+ %d+) ?', '%1;'))
end

-- Stores what a session has told. pcall: a heartbeat needs none of this. The
-- HASH is begun anew where it has entries of many sessions that have ended.
local function idle_write(shard, key, session, text)
    local size = redis.pcall('HLEN', key)
    if type(size) ~= 'number' or size > 2 * shard.sessions + 64 then
        redis.pcall('UNLINK', key)
    end
    if text == '' then
        redis.pcall('HDEL', key, session)
    else
        redis.pcall('HSET', key, session, string.format('%.0f;%s',
            shard.clock, text))
        redis.pcall('PEXPIRE', key, 10 * IDLE_MS)
    end
end

-- Reads what these sessions have told, if they may have idle permits.
local function idle_load(shard, key, sessions, accounts)
    local asked = {}
    for _, session in ipairs(sessions) do
        if accounts[session].reuse > 0 and shard.idle[session] == nil then
            shard.idle[session] = false
            asked[#asked + 1] = session
        end
    end
    if #asked == 0 then return end
    local found = redis.pcall('HMGET', key, unpack(asked))
    for i, session in ipairs(asked) do
        local text = not found.err and found[i]
        local told = tonumber(string.match(text or '', '^(%d+);'))
        if told and math.abs(shard.clock - told) <= IDLE_MS then
            shard.idle[session] = text
        end
    end
end

-- The idle permits of a session in one semaphore.
local function idle_of(shard, session, account, name)
    local text = account.reuse > 0 and shard.idle[session]
    if not text then return 0 end
    local _, last = string.find(text, ';' .. name .. ' ', 1, true)
    return last and tonumber(string.match(text, '^%d+', last + 1)) or 0
end
