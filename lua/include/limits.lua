-- Limits of configurations. A configuration states its literal limits once, and
-- lives while sessions are registered with it. For each name the lowest limit
-- of all live configurations is in force: a cut counts from the first reload, a
-- raise from the last, and a forgotten node can only be careful. They are
-- computed when a configuration comes or goes, and never in between.
--
-- All of it is in the shard HASH:
--   <session>             the session's entry ends with the id of its
--                         configuration
--   config:<id>           "sessions stated parts node digest"; complete: stated
--                         = parts; node: one that has it, or "-"
--   names:<id>/<part>     "name limit name limit ...", of limit=auto "name
--                         start=min-max"; parts 0 to stated - 1
--   limit:<name>          groups "limit id id ...;", the lowest first; all with
--                         limit=auto in one, "limit=min-max id id ...;", where
--                         adjust moves the limit
--   bounds:<name>         of limit=auto groups "min-max id id ...;"
--   leaving               "id id ...", without sessions, to be withdrawn
--
-- An id is as much of the digest of a configuration as makes it unique:
-- all names that it has carry it, and each sync reads that of one name.

-- the id of a session that states no limits, or whose worker exits
local NO_CONFIGURATION = '-'

-- sessions among which others of a configuration are searched for
local SEARCHED = 512

-- characters of a digest that may be an id, then all of them
local ID_LENGTHS = { 4, 6, 8, -1 }

-- The id of the configuration with a digest: the one that it has, or the
-- shortest one that no other has.
local function limits_id(key, digest)
    if digest == NO_CONFIGURATION then return digest end
    local ids, fields = {}, {}
    for i, length in ipairs(ID_LENGTHS) do
        ids[i] = string.sub(digest, 1, length)
        fields[i] = 'config:' .. ids[i]
    end
    local configs, free = redis.call('HMGET', key, unpack(fields)), nil
    for i, id in ipairs(ids) do
        local other = string.match(configs[i] or '', '(%S+)$')
        if other == digest then return id end
        free = free or not other and id
    end
    return free
end

local function session_node(session) return string.match(session, '^[^:]+') end

-- A configuration: sessions registered with it, parts stated, parts in all,
-- a node that has it, and its digest.
local function limits_read(key, id)
    local text = redis.call('HGET', key, 'config:' .. id)
    local sessions, stated, parts, node, digest =
        string.match(text or '', '^(%d+) (%d+) (%d+) (%S+) (%S+)$')
    return {
        sessions = tonumber(sessions) or 0, stated = tonumber(stated) or 0,
        parts = tonumber(parts) or 0, node = node or '-', digest = digest or id
    }
end

local function limits_write(key, id, config)
    redis.call('HSET', key, 'config:' .. id, string.format('%d %d %d %s %s',
        config.sessions, config.stated, config.parts, config.node,
        config.digest))
end

-- A session comes to a configuration. Returns 1 if its limits have to be stated
-- (configure), else 0.
local function limits_join(key, id, digest, session, joined)
    if id == NO_CONFIGURATION then return 0 end
    local config = limits_read(key, id)
    if not joined then
        config.sessions = config.sessions + 1
        config.node = session_node(session)
        config.digest = digest
        limits_write(key, id, config)
    end
    return config.parts > 0 and config.stated == config.parts and 0 or 1
end

-- A node that has a configuration, by its id, and another one; nil: not read
-- yet. They are read once in a call: the sessions that it removes are out of
-- the ZSET before the first of them leaves.
local holders, second_holders

-- Reads them of the sessions with the most of their leases left but this one.
local function limits_read_holders(key, sessions, session)
    holders, second_holders = {}, {}
    local names = redis.call('ZRANGE', sessions, -SEARCHED, -1)
    if #names == 0 then return end
    local entries = redis.call('HMGET', key, unpack(names))
    for i = #names, 1, -1 do
        local id = names[i] ~= session
            and string.match(entries[i] or '', '.* (%S+)$')
        local node = id and session_node(names[i])
        if node and not holders[id] then
            holders[id] = node
        elseif node and holders[id] ~= node then
            second_holders[id] = second_holders[id] or node
        end
    end
end

-- A node that has a configuration which a session leaves, its own only if there
-- is no other.
local function limits_holder(key, sessions, id, session)
    if not holders then limits_read_holders(key, sessions, session) end
    if holders[id] ~= session_node(session) then return holders[id] or '-' end
    return second_holders[id] or holders[id]
end

-- A session leaves its configuration. If it was the last one, some later
-- limits_withdraw(), at the next beat at the latest, withdraws the limits. A
-- message must not send the operator to a node that has other limits by then.
local function limits_leave(key, sessions, id, session)
    if id == NO_CONFIGURATION then return end
    local config = limits_read(key, id)
    config.sessions = math.max(config.sessions - 1, 0)
    if config.sessions > 0 and config.node == session_node(session) then
        config.node = limits_holder(key, sessions, id, session)
    end
    limits_write(key, id, config)
    if config.sessions > 0 then return end
    local leaving = redis.call('HGET', key, 'leaving')
    if not leaving then
        redis.call('HSET', key, 'leaving', id)
    elseif not string.find(' ' .. leaving .. ' ', ' ' .. id .. ' ', 1, true)
    then
        redis.call('HSET', key, 'leaving', leaving .. ' ' .. id)
    end
end
