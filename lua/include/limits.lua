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

-- Bounds of a withdrawal by one call: a script blocks all other commands. The
-- fields of names are long where many nodes have configurations of their own.
local PARTS_AT_ONCE, BYTES_AT_ONCE = 8, 50000

-- sessions searched by one call for the node that asks for a lower limit
local SEARCHED_AT_ONCE = 100

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

-- The groups of a name's field, one per limit. Plain searches: a field may be
-- long where many nodes have configurations of their own.
local function limits_groups(text)
    local groups, from = {}, 1
    while text do
        local stop = string.find(text, ';', from, true)
        groups[#groups + 1] = string.sub(text, from, (stop or 0) - 1)
        if not stop then break end
        from = stop + 1
    end
    return groups
end

-- A name's field with one more configuration that has this limit; text: the
-- field, or false.
local function limits_insert(text, limit, id)
    local groups, placed = {}, false
    for _, group in ipairs(limits_groups(text)) do
        local other = tonumber(string.match(group, '^%d+'))
        if not placed and other > limit then
            groups[#groups + 1] = limit .. ' ' .. id
            placed = true
        elseif other == limit then
            if not string.find(group, ' ' .. id, 1, true) then
                group = group .. ' ' .. id
            end
            placed = true
        end
        groups[#groups + 1] = group
    end
    if not placed then groups[#groups + 1] = limit .. ' ' .. id end
    return table.concat(groups, ';')
end

-- The same with one configuration less; nil: no other has this name.
local function limits_remove(text, id)
    local groups = {}
    for _, group in ipairs(limits_groups(text)) do
        local first, last = string.find(group, ' ' .. id, 1, true)
        if first then
            group = string.sub(group, 1, first - 1)
                .. string.sub(group, last + 1)
        end
        if string.find(group, ' ', 1, true) then groups[#groups + 1] = group end
    end
    return groups[1] and table.concat(groups, ';')
end

-- Applies change(text, limit, id) to the fields of all names of one part.
-- Returns the size of the fields in bytes.
local function limits_change(meta, id, names, limits, change)
    if #names == 0 then return 0 end
    local fields = {}
    for i, name in ipairs(names) do fields[i] = 'limit:' .. name end
    local texts = redis.call('HMGET', meta, unpack(fields))
    local set, gone, size = { 'HSET', meta }, { 'HDEL', meta }, 0
    for i, field in ipairs(fields) do
        size = size + #(texts[i] or '')
        local text = change(texts[i], limits[i], id)
        if text then
            set[#set + 1], set[#set + 2] = field, text
        else
            gone[#gone + 1] = field
        end
    end
    if #set > 2 then redis.call(unpack(set)) end
    if #gone > 2 then redis.call(unpack(gone)) end
    return size
end

-- The session leaves its configuration; limits_withdraw() has to follow.
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

-- The session registers with a configuration. Returns 1 if its limits have to
-- be stated (configure), 0 if they are known.
local function limits_join(meta, session, id)
    local joined = redis.call('HGET', meta, 'session:' .. session)
    if joined and joined ~= id then limits_leave(meta, session) end
    if id == NO_CONFIGURATION then return 0 end
    local sessions, stated, parts = limits_read(meta, id)
    if joined ~= id then
        redis.call('HSET', meta, 'session:' .. session, id)
        limits_write(meta, id, sessions + 1, stated, parts)
    end
    return parts > 0 and stated == parts and 0 or 1
end

-- States one part of the limits, in order. False: an earlier part is missing.
local function limits_state(meta, id, part, parts, names, limits)
    local sessions, stated = limits_read(meta, id)
    if part ~= stated then return part < stated end
    local pairs_of = {}
    for i, name in ipairs(names) do
        pairs_of[i] = name .. ' ' .. limits[i]
    end
    limits_change(meta, id, names, limits, limits_insert)
    redis.call('HSET', meta, 'names:' .. id .. ':' .. part,
        table.concat(pairs_of, ' '))
    limits_write(meta, id, sessions, stated + 1, parts)
    return true
end

-- Withdraws the last part of a configuration; returns the size of its fields.
local function limits_withdraw_part(meta, id, part)
    local field = 'names:' .. id .. ':' .. part
    local text = redis.call('HGET', meta, field)
    local names = {}
    for name in string.gmatch(text or '', '(%S+) %d+') do
        names[#names + 1] = name
    end
    local size = limits_change(meta, id, names, {}, function(old)
        return limits_remove(old, id)
    end)
    redis.call('HDEL', meta, field)
    return size
end

-- Withdraws configurations without sessions, the last part first; what is left
-- is for the next call.
local function limits_withdraw(meta)
    local size, done = 0, 0
    while done < PARTS_AT_ONCE and size < BYTES_AT_ONCE do
        local leaving = redis.call('HGET', meta, 'leaving')
        if not leaving then return end
        local id, rest = string.match(leaving, '^(%S+) ?(.*)$')
        local sessions, stated, parts = limits_read(meta, id)
        if sessions == 0 and stated > 0 then
            stated = stated - 1
            size = size + limits_withdraw_part(meta, id, stated)
            limits_write(meta, id, 0, stated, parts)
        end
        done = done + 1
        if sessions == 0 and stated == 0 then
            redis.call('HDEL', meta, 'config:' .. id)
        end
        if sessions > 0 or stated == 0 then
            if rest == '' then
                redis.call('HDEL', meta, 'leaving')
            else
                redis.call('HSET', meta, 'leaving', rest)
            end
        end
    end
end

-- The lowest limit of a name, from its field; nil: no configuration has it.
local function limits_lowest(text)
    return text and tonumber(string.match(text, '^%d+'))
end

-- Another node with a session that asks for the lowest limit of a name, or nil.
-- A large registry is searched in pieces, another one by each call.
local function limits_node(view, text, session, number)
    local ids = string.match(text, '^[^;]+')
    local own = string.match(session, '^[^:]+')
    local pieces = math.ceil(redis.call('ZCARD', view.registry)
        / SEARCHED_AT_ONCE)
    local first = number % math.max(pieces, 1) * SEARCHED_AT_ONCE
    local names = redis.call('ZRANGE', view.registry, first,
        first + SEARCHED_AT_ONCE - 1)
    if #names == 0 then return nil end
    local fields = {}
    for i, name in ipairs(names) do fields[i] = 'session:' .. name end
    local found = redis.call('HMGET', view.meta, unpack(fields))
    for i, name in ipairs(names) do
        local node = string.match(name, '^[^:]+')
        if node ~= own and found[i]
            and string.find(ids, ' ' .. found[i], 1, true)
        then
            return node
        end
    end
end
