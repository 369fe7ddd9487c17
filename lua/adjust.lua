-- adjust: a sample of what one session's requests took, of a semaphore with
-- limit=auto. The samples of all sessions together move the limit, by the rule
-- of include/auto_rule.lua. When the limit in force changes, adjust serves the
-- queue, or recalls idle permits, in the same step; a lowered limit drains.
--
-- KEYS[1] shard HASH, KEYS[2] semaphore HASH, KEYS[3] its queue ZSET,
-- KEYS[4] HASH of what is kept of the rule
-- ARGV[1] session: string
-- ARGV[2] six integers: epoch; number of the command, echoed; generation that
--   the session knows; bounds of the limit, min and max, permits; the number
--   found by the last reply to the session before state was lost, to begin
--   with: the field may have that of a much older reply; 0: none
-- ARGV[3] name of the semaphore: string, percent-encoded
-- ARGV[4] the sample, ten integers: requests that ended at the upstream since
--   the last sample; sum of the times of those that did not fail, us; how many
--   of them failed; most permits that they had in use at one time; time since
--   the last sample, or since the first request if there was none, ms; sums of
--   ln(time in us) and of its square, times 1000; the usual ln(time in us) of
--   the session's requests before the sample, and with it, times 10000, 0:
--   unknown; mean weight of the requests by their times, times 1000
-- Reply: session (string), epoch, number, status (ok, resync, broken, mixed);
--   if broken then which of KEYS has the wrong type: 2, 3 or 4;
--   if ok then integers: limit in force, limit found, reason
--   (AUTO_REASON in include/auto_rule.lua), floor (latency of the lower one of
--   two limits), latency (geometric mean), both us, 0: unknown; ms until the
--   next sample; limit found without a probe, 0: the state recovers
-- Messages: "grant", "recall" and "reclaimed" as of sync; "grant" and "recall"
--   also to the calling session
--
-- The number found is in the field of the shard that each sync reads, see
-- include/limits.lua, so a lower limit of another configuration stays in
-- force; where it is within the bounds, the number found is no higher. A name
-- with variables has no such field: the number is the stored limit of the
-- semaphore. Nothing moves while the state recovers, or while an order or a
-- limit below the minimum is in force.
-- Not idempotent: a session sends it once; after a lost reply it sends hello.
-- O(log q), q tickets queued; reads as many tickets, accounts and ended
-- sessions as sync.

-- @include "include/expiry.lua"
-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/integers.lua"
-- @include "include/clock.lua"
-- @include "include/shard.lua"
-- @include "include/hash.lua"
-- @include "include/pool.lua"
-- @include "include/account.lua"
-- @include "include/queue.lua"
-- @include "include/semaphore.lua"
-- @include "include/semaphore_learn.lua"
-- @include "include/view_lose.lua"
-- @include "include/serve.lua"
-- @include "include/recall.lua"
-- @include "include/limits_auto.lua"
-- @include "include/order.lua"
-- @include "include/publish.lua"
-- @include "include/auto.lua"

-- sessions of the shard for one that sends samples of a new name, until these
-- are counted: all of many may, and would send ten samples a second each
local MANY = 200
-- ms until a session calls again where work was left, and while the state
-- recovers
local AGAIN_MS, RECOVERING_MS = 10, 1000
-- bounds of a sample: requests, and ms
local SAMPLE_REQUESTS, SAMPLE_MS = 1000000, 3600000
-- 1000 times ln(time in us) of a request, at most
local SAMPLE_LOG = 25000

-- The arguments as a table; an error names what is wrong.
local function read_arguments()
    local n = integers(2, '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    local m = integers(4, '^' .. string.rep('(%d+) ', 9) .. '(%d+)$')
    local call = {
        session = session_name(1), epoch = n[1], number = n[2], gen = n[3],
        min = n[4], max = n[5], found = n[6], name = encoded_name(3),
        sample = { count = m[1], sum = m[2], errors = m[3], peak = m[4],
            window = m[5], logs = m[6], squares = m[7], usual = m[8],
            after = m[9], weight = m[10] }
    }
    if call.epoch < 1 or call.min < 1 or call.max < call.min
        or call.max > AUTO_MAX
    then
        error('DSEM argument 2 is not in range', 0)
    end
    if m[1] > SAMPLE_REQUESTS or m[3] > m[1] or m[5] > SAMPLE_MS
        or m[2] > m[1] * SAMPLE_MS * 1000 or m[6] > m[1] * SAMPLE_LOG
        or m[7] > m[1] * SAMPLE_LOG * SAMPLE_LOG / 1000
        or math.max(m[8], m[9]) > SAMPLE_LOG * 10 or m[10] > AUTO_MAX * 1000
    then
        error('DSEM argument 4 is not in range', 0)
    end
    return call
end

-- The state of the rule, with the bounds in force; nil: its key has the wrong
-- type. It begins with the number found last, also after a long pause.
local function state_read(call, sem, view, limits)
    local texts = redis.pcall('HMGET', KEYS[4], '.', 'usual', 'permits')
    if texts.err then return nil end
    local number, min, max = limits_auto(limits)
    local now, s = view_clock(view), auto_parse(texts[1])
    local passed, before = s and now - s.paced or 0, nil
    if passed > AUTO_PAUSE_MS then before, texts = auto_before(s), {} end
    -- one of a later time is left over from a clock that was lost
    if not s or before or passed < -view.entry.lease then
        local sessions = s and s.sessions or math.floor(view.sessions / MANY)
        s = auto_new(call.found > 0 and call.found or before or number
            or sem.limit or call.min, min or call.min, max or call.max, now)
        s.changes, s.noted, s.anew, s.sessions = 0, 0, true, sessions
    end
    auto_parse_more(s, texts[2], texts[3])
    call.before = { found = auto_kept(s), reason = s.reason }
    s.min, s.max = min or call.min, max or call.max
    auto_bound(s, s.min, s.max, now)
    return s, number
end

-- The limit without orders, and the field of the name as text: of a literal
-- name the lowest of its field, with the number found in it; else that number.
local function limit_now(s, limits, number)
    if number and number ~= s.found then
        limits = limits_auto_move(limits, s.found)
    end
    return limits_lowest(limits) or s.found, limits
end

-- Serves the queue and recalls idle permits, as order does. Returns a status,
-- and the sessions to notify.
local function execute(sem, view)
    semaphore_learn(sem, view)
    local first, status = serve(sem, view)
    if not first then return status end
    return queue_write(sem, view),
        recall(sem, view, sem.waiting - sem.parked)
end

-- Applies the limit to a semaphore that has permits or tickets.
local function apply(call, sem, view)
    local status, recalled = execute(sem, view)
    if status == STATUS.resync then view_lose(view) end
    if status ~= STATUS.ok then return status end
    semaphore_write(sem, view)
    publish_changes(call, sem, view, recalled)
    publish_notes(call, view)
    return status
end

-- Judges the sample where the number found is the limit in force, and no
-- order says so. Returns whether limit or reason have changed.
local function judge(call, sem, s, view, ordered)
    local before, now = call.before, view_clock(view)
    call.sample.waiting = sem.waiting > sem.parked
    local enough = auto_add(s, call.sample, now)
    if ordered or view.limit ~= s.found or view.paused then
        auto_stop(s, AUTO_REASON.unused, now)
    elseif enough then
        auto_judge(s, s.min, s.max, now)
    end
    return auto_kept(s) ~= before.found or s.reason ~= before.reason
end

-- Writes the limit, and applies it to a semaphore that has permits or tickets.
-- limits: the field of the name, before: as read. Returns a status.
local function limit_write(call, sem, view, limit, limits, before)
    if limits ~= before then
        redis.call('HSET', KEYS[1], 'limit:' .. call.name, limits)
    end
    if not sem.limit or limit == sem.limit and sem.waiting == sem.parked
        and sem.held <= view.limit
    then
        return STATUS.ok
    end
    sem.limit = limit
    return apply(call, sem, view)
end

-- Returns the status, and then the rest of the reply.
local function adjust(call)
    local values = redis.call('HMGET', KEYS[1], '.', call.session,
        'order:' .. call.name, 'limit:' .. call.name)
    local view = view_new(KEYS[1], call.session, values[1], values[2])
    if not view or view.gen ~= call.gen or view.entry.epoch ~= call.epoch then
        return STATUS.resync
    end
    -- no session: the reply has no tickets, all are named by messages
    local sem, fault = semaphore_new(KEYS[2], KEYS[3], '',
        redis.pcall('HMGET', KEYS[2], '.'), view, false)
    if not sem then return fault, fault == STATUS.broken and 2 or nil end
    local s, number = state_read(call, sem, view, values[4])
    if not s then return STATUS.broken, 4 end

    view.limit = limit_now(s, values[4], number)
    order_apply(view, values[3])
    local pace, kept = RECOVERING_MS, 0
    if not view.recovering then
        local changed = judge(call, sem, s, view, order_parse(values[3]))
        local limit, limits = limit_now(s, values[4], number)
        view.limit = limit
        order_apply(view, values[3])
        local status = limit_write(call, sem, view, limit, limits, values[4])
        if status ~= STATUS.ok then
            return status, status == STATUS.broken and 3 or nil
        end
        auto_write(KEYS[4], s, changed, view_clock(view))
        pace = view.more and AGAIN_MS or auto_pace(s)
        kept = auto_kept(s)
    end
    return STATUS.ok, view.limit, s.found, s.reason, s.floor, s.latency, pace,
        kept
end

local call = read_arguments()
return { call.session, call.epoch, call.number, adjust(call) }
