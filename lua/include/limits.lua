-- Limits of configurations. A configuration states its literal limits once, and
-- lives while sessions are registered with it. For each name the lowest limit
-- of all live configurations is in force: a cut counts from the first reload, a
-- raise from the last, and a forgotten node can only be careful. They are
-- computed when a configuration comes or goes, and never in between.
--
-- All of it is in the shard HASH:
--   <session>             the session's entry ends with the id of its
--                         configuration, a digest
--   config:<id>           "sessions stated parts node"; complete: stated =
--                         parts; node: of the last session that came
--   names:<id>:<part>     "name limit name limit ..."; parts 0 to stated - 1
--   limit:<name>          "limit id id ...;limit id ...", the lowest first; of
--                         limit=auto "limit=min-max id id ...", where adjust
--                         moves the limit
--   leaving               "id id ...", without sessions, to be withdrawn

-- the id of a session that states no limits, or whose worker exits
local NO_CONFIGURATION = '-'

-- A configuration: sessions registered with it, parts stated, parts in all,
-- and a node that has it.
local function limits_read(key, id)
    local text = redis.call('HGET', key, 'config:' .. id)
    local sessions, stated, parts, node =
        string.match(text or '', '^(%d+) (%d+) (%d+) (%S+)$')
    return {
        sessions = tonumber(sessions) or 0, stated = tonumber(stated) or 0,
        parts = tonumber(parts) or 0, node = node or '-'
    }
end

local function limits_write(key, id, config)
    redis.call('HSET', key, 'config:' .. id, string.format('%d %d %d %s',
        config.sessions, config.stated, config.parts, config.node))
end

-- A session comes to a configuration. Returns 1 if its limits have to be stated
-- (configure), 0 if they are known.
local function limits_join(key, id, session, joined)
    if id == NO_CONFIGURATION then return 0 end
    local config = limits_read(key, id)
    if not joined then
        config.sessions = config.sessions + 1
        config.node = string.match(session, '^[^:]+')
        limits_write(key, id, config)
    end
    return config.parts > 0 and config.stated == config.parts and 0 or 1
end

-- A session leaves its configuration. If it was the last one, some later
-- limits_withdraw(), at the next beat at the latest, withdraws the limits.
local function limits_leave(key, id)
    if id == NO_CONFIGURATION then return end
    local config = limits_read(key, id)
    config.sessions = math.max(config.sessions - 1, 0)
    limits_write(key, id, config)
    if config.sessions > 0 then return end
    local leaving = redis.call('HGET', key, 'leaving')
    if not leaving then
        redis.call('HSET', key, 'leaving', id)
    elseif not string.find(leaving, id, 1, true) then
        redis.call('HSET', key, 'leaving', leaving .. ' ' .. id)
    end
end
