-- Limits of configurations. A configuration states its literal limits once, and
-- lives while sessions are registered with it. For each name the lowest limit
-- of all live configurations is in force: a cut counts from the first reload, a
-- raise from the last, and a forgotten node can only be careful. They are
-- computed when a configuration comes or goes, and never in between.
--
-- All of it is in the meta HASH, and lost only together with the generation:
--   session:<session>     id of the session's configuration, a digest
--   config:<id>           "sessions stated parts"; complete: stated = parts
--   names:<id>:<part>     "name limit name limit ..."; parts 0 to stated - 1
--   limit:<name>          "limit id id ...;limit id ...", the lowest first
--   leaving               "id id ...", without sessions, to be withdrawn

-- the id of a session that states no limits, or whose worker exits
local NO_CONFIGURATION = '-'

-- Sessions registered with a configuration, parts stated, parts in all.
local function limits_read(meta, id)
    local text = redis.call('HGET', meta, 'config:' .. id)
    local sessions, stated, parts =
        string.match(text or '', '^(%d+) (%d+) (%d+)$')
    return tonumber(sessions) or 0, tonumber(stated) or 0,
        tonumber(parts) or 0
end

local function limits_write(meta, id, sessions, stated, parts)
    redis.call('HSET', meta, 'config:' .. id,
        string.format('%d %d %d', sessions, stated, parts))
end

-- The session leaves its configuration. If it was the last one, some later
-- limits_withdraw(), at the next beat at the latest, withdraws the limits.
local function limits_leave(meta, session)
    local id = redis.call('HGET', meta, 'session:' .. session)
    if not id then return end
    redis.call('HDEL', meta, 'session:' .. session)
    local sessions, stated, parts = limits_read(meta, id)
    limits_write(meta, id, math.max(sessions - 1, 0), stated, parts)
    if sessions > 1 then return end
    local leaving = redis.call('HGET', meta, 'leaving')
    if not leaving then
        redis.call('HSET', meta, 'leaving', id)
    elseif not string.find(leaving, id, 1, true) then
        redis.call('HSET', meta, 'leaving', leaving .. ' ' .. id)
    end
end
