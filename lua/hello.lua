-- hello: registers a session, or raises its epoch. It is the first command of
-- every connection; declare for each account and declared follow.
--
-- KEYS[1] shard HASH, KEYS[2] sessions ZSET, KEYS[3] census ZSET
-- ARGV[1] session: string
-- ARGV[2] epoch: integer > 0
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] generation that the session remembers: integer, 0: none
-- ARGV[5] generation to set if there is none: integer > 0, random
-- ARGV[6] lease: integer > 0, ms
-- ARGV[7] sessions, in the last answer to this session: integer, 0: the session
--   has had none, or their number was unknown
-- ARGV[8] age of the last answered hello or beat of the session, or if it has
--   had none of its node: integer, ms
-- ARGV[9] id of the worker's configuration, a digest of its literal limits:
--   hex string; "-": it has none, or the worker exits and does not count
-- ARGV[10] seal: 64 random bits, 16 hex digits; each message to the session
--   begins with it from now on
-- ARGV[11] number of shards of the prefix: integer > 0; 1: not in a Cluster
-- ARGV[12] term that the session remembers of this generation: integer, 0: none
-- ARGV[13] longest lease of the fleet that the session knows: integer, ms
-- ARGV[14] clock in that answer: integer, 0: there was none
-- Reply: session (string), epoch, number, status (ok, stale, gone, layout); if
--   ok then generation, live sessions (while the state recovers: with those
--   that are missing; negative: without them, their number is unknown), ms
--   until recovery ends at the latest (0: none), 1: the session was registered,
--   0: it is new or its lease had expired, 2: the state is older than it, and
--   recovers since another process has it, 1: the limits of the configuration
--   have to be stated (configure), 0: not, number that identifies the Redis
--   process, 0: unknown, term of the state, longest registered lease in ms,
--   clock; or an error "WRONGMODE ...", for people: a node, which is named,
--   uses the prefix with another number of shards, or a Cluster is used as one
--   server
-- Messages: "recovered", see include/census.lua; "sessions <n>" to four others
--   when a new session makes it n; while a census is open, to four that have
--   sent hello in it
--
-- A missing generation means that Redis lost all state, or a first start. Only
-- a missing generation is set: replacing a different one would go on without
-- end between two sessions. A session that remembers another generation proves
-- that there was state, so recovery lasts until all sessions that were
-- registered have declared, one lease from the creation of the new generation
-- at most; a first start causes no pause. State that another process wrote (a
-- promoted replica, a restart from disk) may lack the last writes and causes
-- the same recovery. It may be older than a session, which it lacks: while it
-- has recovered ever since, nothing that the session has was granted to others.
-- That is not certain if there was a process between that of the session and
-- this one.
--
-- Each process that takes over raises the term. A session that remembers a
-- higher term than the state, of the same generation, proves that others were
-- masters since this one wrote its state: a former master is named again, that
-- was no replica meanwhile. That causes the same recovery. The lower digits of
-- a term are random: two that take over from one state give different terms.
--
-- The machine of Redis may have stood still together with its clock, as a
-- virtual machine that was paused: then the clock has not moved for as long as
-- a session had no answer, and there is the same pause as after an outage. A
-- session that was cut off alone finds the clock moved by the others. A new one
-- has the figures of its node's last answer: it may come first. A new node has
-- had none, and causes no pause.
--
-- The run id comes from INFO in this script, so it is that of the process that
-- has the keys, whatever else a proxy connects to. State of another layout is
-- replaced when its clock has not moved for a lease and a heartbeat, and so is
-- that of another number of shards, at once where no session is left.
--
-- Run again with the same epoch it replies stale and changes nothing but the
-- clock. O(log n), n sessions.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/shard.lua"
-- @include "include/shard_write.lua"
-- @include "include/entries.lua"
-- @include "include/leases.lua"
-- @include "include/tick.lua"
-- @include "include/entry_field.lua"
-- @include "include/limits.lua"
-- @include "include/census.lua"

local key, sessions = KEYS[1], KEYS[2]
local session = session_name(1)
local epoch, number = integer(2, 1), integer(3)
local known, fresh, lease = integer(4), integer(5, 1), integer(6, 1)
local told, age = integer(7), integer(8)
local digest = configuration_id(9)
local seal = ARGV[10]
if #(seal or '') ~= 16 or string.find(seal, '%X') then
    error('DSEM argument 10 is not a seal', 0)
end
local shards = integer(11, 1)
local remembered, longest = integer(12), integer(13)
local answered = integer(14)
-- sessions that are notified of a new one
local NOTIFIED = 4
-- steps of terms
local TERM = 2^20
-- fields of a shard in which orders are searched when it is forgotten
local ORDERS_KEPT = 512

local function reply(status, ...)
    return { session, epoch, number, status, ... }
end

-- What INFO has of the server, "" where the user may not know it.
local function info_read()
    local info = redis.pcall('INFO', 'server')
    return type(info) == 'string' and info or ''
end

-- The first 48 bits of a run id; tonumber reads 32 at most on some machines.
local function run_number(run)
    local n = 0
    for digit in string.gmatch(string.sub(run, 1, 12), '%x') do
        n = n * 16 + tonumber(digit, 16)
    end
    return n
end

-- The head of a new state. The log of the ended begins at a random number, so
-- that no semaphore that is left over has seen it.
local function shard_new()
    local now = wall_now()
    return {
        key = key, gen = fresh, clock = 0, wall = now, recover_until = 0,
        ended = fresh % 2^49, sessions = 0, first_bar = 0, last_bar = 0,
        lease = 0, logged = {}
    }
end

-- Forgets all but the operator's orders, as long as these are easily found.
-- Leases in a registry that is left over are times of another clock.
local function forget()
    local all = redis.call('HLEN', key) <= ORDERS_KEPT
        and redis.call('HGETALL', key) or {}
    redis.call('UNLINK', key, sessions)
    for i = 1, #all, 2 do
        if string.find(all[i], '^order:') and not entry_is(all[i], all[i + 1])
        then
            redis.call('HSET', key, all[i], all[i + 1])
        end
    end
end

-- The next term after this one.
local function term_next(term)
    return (math.floor(term / TERM) + 1) * TERM + fresh % TERM
end

-- Whether state of another layout may be in use: its wall clock, text, moved
-- lately.
local function in_use(wall)
    return wall and math.abs(wall_now() - wall) <= lease + heartbeat(lease)
end

-- The error for a number of shards that is not that of the state, and why.
local function refused(others)
    local last = redis.call('ZRANGE', sessions, -1, -1)[1]
    local node = string.match(last, '^(.*):%d+:%x+$') or '-'
    return redis.error_reply(string.format('WRONGMODE node %s uses this prefix '
        .. (others > 1 and 'with "mode=cluster", this node without it'
            or 'without "mode=cluster", this node with it'), node))
end

-- The census of the state, begun anew if state was lost.
local function census_of(shard, created, restarted)
    local census = census_read(shard, KEYS[3])
    if not census or census.gen ~= shard.gen or restarted then
        census = census_begin(shard, KEYS[3], census,
            restarted and shard.clock or created, lease, restarted)
    end
    return census
end

-- Whether a session is missing because the state is older, see above: it has
-- recovered ever since another process has it, as its census is open and was
-- not complete before.
local function is_older(census, term)
    return census_open(census, census.shard.clock) and census.any
        and not census.complete and told > 0 and known == census.gen
        and math.floor(term / TERM) - math.floor(remembered / TERM) == 1
end

-- Whether no session may have had an answer for three quarters of a lease,
-- although the clock has not moved so far, and no pause has begun since: the
-- first command after that has moved it by a quarter of a lease at most. Then
-- it is the longest lease that is over, 0: no. A longer lease than all that are
-- registered is that of a new session, and the others did not wait for it.
local function stood_still(shard, paused)
    if answered == 0 or known ~= shard.gen or paused > answered then
        return 0
    end
    local own = math.min(lease, leases_longest(shard, 2^53))
    -- R3: fence
    if age < own * 3 / 4 or age - (shard.clock - answered) < own / 2 then
        return 0
    end
    return math.max(own, leases_longest(shard, age * 4 / 3))
end

-- The others learn of a new session with their next beat. If state is lost
-- before that, one that knows of it makes the census wait for it. A session
-- that has not sent hello in an open census does not learn of it: the census
-- would wait for the new one, which it does not count.
local function notify_others(size, census)
    local open, others = census_open(census, census.shard.clock), {}
    for _, other in ipairs(redis.call('ZRANGE', sessions, -1 - NOTIFIED, -1)) do
        if other ~= session and #others < NOTIFIED
            and (not open or redis.call('ZSCORE', census.key, other))
        then
            others[#others + 1] = other
        end
    end
    publish_all(key, others, 'sessions ' .. size)
end

-- a key of the wrong type must fail the script before its first write
local registered = redis.call('ZCARD', sessions)
local v = redis.call('HMGET', key, '.', session, 'created', 'run', 'gen',
    'wall', 'shards', 'term', 'paused')
local shard = shard_parse(key, v[1])
local entry, bar_end = entry_parse(v[2])

if not shard and (v[1] or v[5]) then
    local wall = string.match(v[1] or '', '^%d+ %d+ %d+ (%d+)') or v[6]
    if in_use(tonumber(wall)) then return reply(STATUS.layout) end
end
local info = info_read()
if shards == 1 and string.find(info, '%a_mode:cluster') then
    return redis.error_reply('WRONGMODE a Cluster needs "mode=cluster"')
end
local others = tonumber(v[7])
if shard and others and others ~= shards then
    if registered > 0 and in_use(shard.wall) then return refused(others) end
    shard = nil
end
if shard and registered == shard.sessions then
    clock_tick(shard, lease)
    if bar_end and bar_end > shard.clock then
        shard_write(shard)
        return reply(STATUS.gone)
    end
    if entry and entry.epoch >= epoch then
        shard_write(shard)
        return reply(STATUS.stale)
    end
else
    -- a HASH without a head and sessions has nothing but orders
    if v[1] or v[5] or registered > 0 then forget() end
    redis.call('HSET', key, 'created', 0)
    shard, entry, v = shard_new(), nil, {}
end

if not v[7] then redis.call('HSET', key, 'shards', shards) end

local run = string.match(info, 'run_id:(%x+)') or ''
if known ~= shard.gen then remembered = 0 end
-- a state that has lost its term has that of the session
local term = tonumber(v[8]) or remembered
local restarted = v[4] and run ~= '' and v[4] ~= run or remembered > term
if restarted or term == 0 then term = term_next(math.max(term, remembered)) end
if tonumber(v[8]) ~= term then
    redis.call('HSET', key, 'term', string.format('%.0f', term))
end
-- a session that may not know it leaves it as it is
if run ~= '' and v[4] ~= run then redis.call('HSET', key, 'run', run) end

local lost = known ~= 0 and known ~= shard.gen
local over = stood_still(shard, tonumber(v[9]) or 0)
if over > 0 then clock_pause(shard, over) end
local census = census_of(shard, tonumber(v[3]) or 0, restarted)
if lost then
    census.lost = true
    census.lease = math.max(census.lease, lease, longest)
end
if census_open(census, shard.clock) then
    census_hello(census, session, shard.clock, lease,
        told > 0 and (lost or census.any and known ~= 0), told, age)
end
census_write(census)

local configuration = limits_id(key, digest)
local joined = entry and entry.configuration == configuration
if entry and not joined then
    limits_leave(key, sessions, entry.configuration, session)
end
local unknown = limits_join(key, configuration, digest, session, joined)
entry_write(key, session, {
    epoch = epoch, declared = entry and entry.declared or 0, lease = lease,
    ends = shard.clock + lease, seal = seal, configuration = configuration
})
redis.call('ZADD', sessions, shard.clock + lease, session)
if not entry then shard.sessions = shard.sessions + 1 end
leases_move(shard, entry and entry.lease, lease)

local recovery = census_judge(census, sessions)
local size = census_size(census, shard)
shard_write(shard)
if not entry and size > 0 then notify_others(size, census) end

local before = entry and 1
    or recovery > 0 and is_older(census, term) and 2 or 0
return reply(STATUS.ok, shard.gen, size, recovery, before, unknown,
    run_number(run), term, leases_longest(shard, 2^53), shard.clock)
