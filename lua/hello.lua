-- hello: a session enters the registry, or raises its epoch. First command
-- of every connection; declare for each account and declared follow.
--
-- KEYS[1] meta HASH, KEYS[2] sessions ZSET, KEYS[3] epochs HASH
-- ARGV[1] session, ARGV[2] epoch (> 0), ARGV[3] number of the command
-- ARGV[4] generation that the session remembers, 0: none
-- ARGV[5] generation to use if there is none (> 0, random)
-- ARGV[6] lease in ms
-- ARGV[7] run id of the Redis process, as INFO says it
-- Reply: session, epoch, number, status (ok, stale, gone); if ok then
--   generation, live sessions, ms until recovery ends (0: none),
--   1: the session was registered, 0: it is new or its lease had ended
--
-- A missing generation means that all state was lost, or a first start: it
-- is set anew, only a missing one (replacing a different one never ends). A
-- session that remembers another one tells that there was state: recovery
-- lasts one lease from the creation of the new generation. Where nobody
-- remembers any there is no pause. State that another process wrote (a
-- promoted replica, a restart from disk) may lack the last writes: it
-- recovers likewise.
--
-- Run again with the same epoch it answers stale and changes nothing.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/registry.lua"

local meta, sessions, epochs = KEYS[1], KEYS[2], KEYS[3]
local session = session_name(1)
local epoch, number = integer(2, 1), integer(3)
local known, fresh, lease = integer(4), integer(5, 1), integer(6, 1)
local run = run_id(7)

local function answer(status, ...)
    return { session, epoch, number, status, ... }
end

redis.call('ZCARD', sessions)
local current, declared = registry_read(epochs, session)
local clock = clock_tick(meta, sessions, lease)

if not current and declared and declared > clock then
    return answer(STATUS.gone)
end
if current and current >= epoch then
    return answer(STATUS.stale)
end

local v = redis.call('HMGET', meta, 'gen', 'created', 'recover_until', 'run')
local gen, created = tonumber(v[1]), tonumber(v[2]) or 0
local recover_until = tonumber(v[3]) or 0

if not gen then
    -- what is left of the old registry has leases of another clock
    redis.call('UNLINK', sessions, epochs)
    current = nil
    gen, created = fresh, clock
    redis.call('HSET', meta, 'gen', string.format('%.0f', gen),
        'created', created)
end
if known ~= 0 and known ~= gen then
    recover_until = math.max(recover_until, created + lease)
end
if v[4] and v[4] ~= run then
    recover_until = math.max(recover_until, clock + lease)
end
redis.call('HSET', meta, 'run', run, 'recover_until', recover_until)

redis.call('ZADD', sessions, clock + lease, session)
registry_write(epochs, session, epoch, current and declared or 0, lease)

return answer(STATUS.ok, gen, redis.call('ZCARD', sessions),
    math.max(recover_until - clock, 0), current and 1 or 0)
