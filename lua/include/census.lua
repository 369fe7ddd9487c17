-- The census: which sessions of a lost state have declared in the new one.
-- When their number reaches the number of sessions that were registered, no
-- permit in use is missing and the recovery ends at once. A session that stays
-- away makes it last a lease, because its requests may still run.
--
-- A census is open for one lease, from the creation of a generation or from
-- the first hello to another Redis process. The field "census" of the shard
-- has its figures, see census_read(). The census ZSET has the sessions
-- that sent hello meanwhile; the first hello decides. Scores:
--   -inf            the session was not registered in the lost state: it is
--                   not counted
--   fence - 2^52    it was, and has not declared yet
--   fence           it was, and has declared or left: counted
-- The fence is the clock time, three quarters of a lease after its last
-- answered hello or beat, until which the session was certainly registered.
-- A session whose fence is not after the freshest answer of all may have been
-- removed before the loss: neither the session nor its number counts.
--
-- Where state is lost again during a recovery, sessions that came in between
-- were registered at the second loss, but not at the first. A number of the
-- first loss does not include them, so that census decides nothing.
--
-- A session that comes after the end, and that no other knew of, makes the
-- recovery begin again. Permits were granted in between: the census remembers
-- that it was complete once. It does so also while a pause still lasts: a
-- session that comes in that pause counts as one that comes after it, which is
-- safe.

local PENDING, NOT_MEMBER = 2^52, '-inf'
-- a time before all others, above all pending scores
local NEVER = -2^51
-- sessions that are notified of the end by a message; the others ask for it
local NOTIFIED_AT_ONCE = 256

-- The census that is open or was the last one; nil: none. gen: generation;
-- begins: clock; lease: ms; any: sessions of the same generation are counted,
-- too, because they were registered with another process; mixed: it decides
-- nothing; complete: such a one was complete once; lost: state was lost, so
-- there is a recovery; number: of sessions that were registered;
-- number_fence: of the session that brought it; freshest: clock time of the
-- last answer to any session.
local function census_read(shard, key)
    local text = redis.call('HGET', shard.key, 'census')
    local gen, begins, lease, any, lost, number, number_fence, freshest =
        string.match(text or '',
            '^(%d+) (%d+) (%d+) (%d) (%d) (%d+) (%-?%d+) (%-?%d+)$')
    if not gen then return nil end
    return {
        shard = shard, key = key, gen = tonumber(gen),
        begins = tonumber(begins), lease = tonumber(lease),
        any = any ~= '0', mixed = any == '2', complete = any == '3',
        lost = lost == '1', number = tonumber(number),
        number_fence = tonumber(number_fence), freshest = tonumber(freshest)
    }
end

local function census_write(census)
    local any = census.mixed and 2 or census.complete and 3
        or census.any and 1 or 0
    redis.call('HSET', census.shard.key, 'census', string.format(
        '%.0f %.0f %.0f %d %d %.0f %.0f %.0f', census.gen, census.begins,
        census.lease, any, census.lost and 1 or 0,
        census.number, census.number_fence, census.freshest))
end

local function census_open(census, clock)
    return census and clock < census.begins + census.lease
end

-- The number of sessions whose fence is after the freshest answer, among those
-- that are counted (offset 0) or have not declared (offset PENDING).
local function census_count(census, offset)
    return redis.call('ZCOUNT', census.key,
        string.format('(%.0f', census.freshest - offset),
        string.format('%.0f', -NEVER - offset))
end

-- Whether the census before a second loss was open, and had sessions that are
-- not counted; or lost its key, and does not know.
local function census_mixed(census, shard)
    return census and census.lost and census_open(census, shard.clock)
        and shard.recover_until > shard.clock
        and (census.mixed or redis.call('ZCARD', census.key) == 0
            or redis.call('ZCOUNT', census.key, NOT_MEMBER, NOT_MEMBER) > 0)
end

-- The number of registered sessions. While the state recovers it includes
-- those that are missing: all that were registered before the loss, and those
-- that are new. A second loss must not forget them: until one of them has come
-- their number is unknown, and that of those that are registered is negative. A
-- new session that comes again after that loss is no member then whose number
-- could end the recovery.
local function census_size(census, shard)
    local size = shard.sessions
    if not census_open(census, shard.clock) or not census.lost
        or shard.recover_until <= shard.clock
    then
        return size
    end
    if census.number == 0 then return -size end
    local new = redis.call('ZCARD', census.key) - census_count(census, 0)
        - census_count(census, PENDING)
    return math.max(size, census.number + new)
end

-- Begins a census. The registry, or the census before, may have survived: its
-- size is one of the numbers, and the longest of its leases counts.
local function census_begin(shard, key, before, begins, lease, any)
    local census = {
        shard = shard, key = key, gen = shard.gen, begins = begins,
        lease = math.max(lease, leases_longest(shard, 2^53)),
        any = any, lost = any, freshest = NEVER,
        mixed = any and census_mixed(before, shard),
        number = math.max(census_size(before, shard), 0), number_fence = -NEVER
    }
    redis.call('UNLINK', key)
    return census
end

-- The key is garbage when the census is closed; if it expires too early, the
-- recovery lasts a lease.
local function census_add(census, session, score)
    redis.call('ZADD', census.key, score, session)
    redis.call('PEXPIRE', census.key, 2 * census.lease)
end

-- Takes a session into an open census. member: it was registered when the
-- state was lost; number: of sessions, in the last reply to it; age: ms since
-- its last answered hello or beat.
local function census_hello(census, session, clock, lease, member, number, age)
    -- a later hello has number and age of a reply in this state
    if redis.call('ZSCORE', census.key, session) then return end
    if not member then
        census_add(census, session, NOT_MEMBER)
        return
    end

    local answered = math.max(clock - age, NEVER / 2)
    -- R3: fence
    local fence = answered + math.floor(lease * 3 / 4)
    census_add(census, session, string.format('%.0f', fence - PENDING))
    if answered > census.freshest then
        census.freshest = answered
        if census.number_fence <= answered then census.number = 0 end
    end
    if fence > census.freshest and number >= census.number then
        census.number_fence = number == census.number
            and math.max(fence, census.number_fence) or fence
        census.number = number
    end
end

-- Counts a session that has declared, or has left and holds nothing any more.
local function census_settle(census, session, left)
    local score = redis.call('ZSCORE', census.key, session)
    if not score then return end
    if score == NOT_MEMBER then
        if left then redis.call('ZREM', census.key, session) end
    elseif tonumber(score) < NEVER then
        redis.call('ZADD', census.key,
            string.format('%.0f', score + PENDING), session)
    end
end

-- When the recovery ends. After an outage longer than a lease it lasts a
-- quarter of that lease at least: new workers may have admitted requests by
-- their local shares, and have to declare them, although they are not counted.
local function census_end(census, clock, recover_until, pause)
    if census.mixed or census.number == 0
        or census_count(census, 0) < census.number
    then
        return math.max(census.begins + census.lease, pause)
    end
    local ends = math.max(math.min(recover_until, clock), pause)
    local outage = census.begins - census.freshest
    local expired = leases_longest(census.shard, outage - 1)
    return math.max(ends, census.begins + math.floor(expired / 4))
end

-- Ends the recovery if no session is missing, or continues it if one is.
-- Returns the remaining ms of the recovery. The end is published as
-- "recovered" on the channels of the sessions.
local function census_judge(census, sessions)
    local shard = census.shard
    local clock, before = shard.clock, shard.recover_until
    if census.lost and census_open(census, clock) then
        local pause = tonumber(redis.call('HGET', shard.key, 'pause')) or 0
        shard.recover_until = census_end(census, clock, before, pause)
        if census.any and not census.complete
            and shard.recover_until < census.begins + census.lease
        then
            census.complete = true
            census_write(census)
        end
    end
    if before > clock and shard.recover_until <= clock then
        publish_fleet(shard.key, sessions, NOTIFIED_AT_ONCE, 'recovered')
    end
    return math.max(shard.recover_until - clock, 0)
end

-- Counts a session that has declared (left: false) or was removed (left: true).
-- Returns the remaining ms of the recovery.
local function census_declared(shard, key, sessions, session, left)
    local recovery = math.max(shard.recover_until - shard.clock, 0)
    if recovery == 0 then return 0 end
    local census = census_read(shard, key)
    if not census or census.gen ~= shard.gen then return recovery end
    census_settle(census, session, left)
    return census_judge(census, sessions)
end
