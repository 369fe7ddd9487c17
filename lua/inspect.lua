-- inspect: what there is of some semaphores, for a display: permits, tickets,
-- limits, and the sessions that have them. It changes nothing but the field
-- "watched" of the shard, the end of the time in which beats report idle ones.
--
-- KEYS[1] shard HASH, KEYS[2] sessions ZSET, KEYS[3] idle HASH; then for each
-- of up to 32 semaphores
--   KEYS[4] its HASH, KEYS[5] HASH of limit=auto
-- ARGV[1] session: string
-- ARGV[2] epoch: integer, echoed
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] accounts to reply of a semaphore, at most: integer, 1 to 1024
-- ARGV[5] time for which beats shall report idle permits: integer, ms, an hour
--   at most, 0: leave that as it is
-- ARGV[6] and so on, the name of each semaphore: string, percent-encoded
-- Reply: one bulk string, lines separated by a newline:
--   <session> <epoch> <number> <status>    (ok, layout)
--   shard <generation> <clock> <ms of recovery left> <live sessions>
--     all 0: no session has ever been there
--   and for each name, in order
--   semaphore <name> <held> <waiting> <limit in force> <configured limit>
--     <limit of the order> <1: paused> <1: partial>
--     limits: "-" unknown or none; held, waiting: of live sessions, or if
--     partial of all sessions that were not yet found to have ended
--   auto <min> <max> <found> <reason> <floor> <latency>
--   history <clock> <clock> <limit> <reason> <clock> <limit> <reason> ...
--     where a live configuration has limit=auto, and a sample came within the
--     last hour: bounds of the limit, the number found, its reason (AUTO_REASON
--     in include/auto_rule.lua), floor and latency in us; then the clock now,
--     and the last 60 changes of number or reason with the clock of each, in
--     ms, the oldest first; changes within a second are one
--   account <session> <held> <waiting> <idle> <ms of lease left> <1: not
--     silent>
--     for each live session that has an account; if partial of some of them
--   asks <limit> <node>
--     for each live configuration with another literal limit than the lowest, 8
--     at most
--   server <server> <held> <limit> <limit of the order>
--     of a pool, for each server that has permits out, is in a list that an
--     account has, or has a limit of its own in the order: permits held, the
--     highest limit of these lists, limit of the order; "-": none
--
-- If the status is layout the shard has another one, and no line follows. A key
-- of the wrong type is like one that is missing. Run again it changes nothing
-- but that time. O(n), n accounts of all semaphores together, 512 at most, and
-- servers of lists that differ, 256 at most and as many more as accounts leave.
-- A semaphore for which these do not suffice is partial, with 384 accounts at
-- most: of fewer semaphores in one call all accounts can be read.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/shard.lua"
-- @include "include/limits_lowest.lua"
-- @include "include/order.lua"
-- @include "include/text.lua"
-- @include "include/idle.lua"
-- @include "include/auto_history.lua"

-- semaphores, and accounts of them that are read by one call: a script blocks
-- all other commands
local SEMAPHORES, ACCOUNTS = 32, 512
-- accounts that are read of a semaphore which has more than that
local SOME = 384
-- lists of a pool; different servers and limits of all pools, and as many more
-- as accounts leave
local LISTS, SERVERS = 33, 256
-- fields of a semaphore that are none: head, scan, recall, and one to spare
local OTHERS_EACH = 4
-- fields that a page has beyond what was asked for, as it ends with a bucket:
-- by chance, and other semaphores do not get less for it
local BUCKET = 8
-- bytes of a session and of an account: longer fields are not ours, unless an
-- account has up to 64 servers of up to 200 bytes, and a list of as many
local LONGEST, LONGEST_OF_POOL = 320, 32768

local reply = text_begin()
local most, watch = integer(4, 1, 1024), integer(5, 0, LONGEST_WATCH)
local names = (#KEYS - 3) / 2
local fields_left = ACCOUNTS + OTHERS_EACH * names
local servers_left = SERVERS
if names < 0 or names > SEMAPHORES or names % 1 ~= 0 then
    error('DSEM keys are not those of 0 to 32 semaphores', 0)
end
for i = 6, 5 + names do encoded_name(i) end
if #ARGV > 5 + names then
    error('DSEM argument ' .. #ARGV .. ' is not of a semaphore', 0)
end

-- Prolongs the time in which beats report idle permits, when a quarter of it
-- has passed, so that few of many calls write.
local function watched(shard, text)
    if watch > 0 and idle_wanted(shard, text) < watch * 3 / 4 then
        redis.call('HSET', shard.key, 'watched', string.format('%.0f',
            shard.clock + watch))
    end
end

-- Sessions by name: the epoch of the declaration, and the end of the line of an
-- account, as text. declared is false: not live. No tables of each: there may
-- be a thousand.
local declared_of, words_of = {}, {}

-- Sets them.
local function load_entries(shard, sessions)
    local entries = redis.call('HMGET', shard.key, unpack(sessions))
    for i, session in ipairs(sessions) do
        local declared, lease, ends =
            string.match(entries[i] or '', '^%d+ (%d+) (%d+) (%d+) ')
        local left = declared and ends - shard.clock or 0
        if left > 0 and left < 1e10 then
            declared_of[session] = declared
            words_of[session] = ' ' .. left
                .. (entry_silent(shard, ends, lease) and ' 0' or ' 1')
        end
    end
end

-- Reads those that are not read yet. A name with a blank or a newline, which
-- no session has, would break the reply.
local function load_sessions(shard, sessions)
    local unknown, count = {}, 0
    for _, session in ipairs(sessions) do
        if declared_of[session] == nil then
            declared_of[session] = false
            count = count + 1
            unknown[count] = session
        end
    end
    local text = table.concat(unknown)
    if string.find(text, ' ', 1, true) or string.find(text, '\n', 1, true) then
        local good = {}
        for _, session in ipairs(unknown) do
            if not string.find(session, '[ \n]') then
                good[#good + 1] = session
            end
        end
        unknown = good
    end
    if unknown[1] then load_entries(shard, unknown) end
end

-- Fields and values of a semaphore, and whether these are all there are.
local function read_fields(key)
    local size = redis.call('HLEN', key)
    if size <= fields_left and size <= most + OTHERS_EACH then
        fields_left = fields_left - size
        return redis.call('HGETALL', key), true
    end
    if fields_left <= 0 then return {}, false end
    local count = math.min(most + OTHERS_EACH, fields_left, SOME)
    local page = redis.call('HSCAN', key, '0', 'COUNT', count)
    local read = #page[2] / 2
    fields_left = fields_left - math.max(math.min(read, count), read - BUCKET)
    return page[2], page[1] == '0'
end

-- The sessions that may have an account, the account of each as text, and
-- whether these are all.
local function list_accounts(key)
    local fields, all = read_fields(key)
    local sessions, accounts, count = {}, {}, 0
    for i = 1, #fields, 2 do
        local session, account = fields[i], fields[i + 1]
        if #session <= LONGEST and string.find(session, '^[^:]+:%d+:%x+$')
            and (#account <= LONGEST or #account <= LONGEST_OF_POOL
                and string.find(account, ' @', 1, true))
        then
            if count == most then return sessions, accounts, false end
            count = count + 1
            sessions[count], accounts[count] = session, account
        end
    end
    return sessions, accounts, all
end

-- The idle permits of accounts, as text; reuse: "1" or "2" where there may be
-- some, by index.
local function load_idle(name, sessions, reuse)
    local fields, indices, count = {}, {}, 0
    for i, session in ipairs(sessions) do
        if reuse[i] == '1' or reuse[i] == '2' then
            count = count + 1
            fields[count], indices[count] = session .. ' ' .. name, i
        end
    end
    if count == 0 then return {} end
    local found, idle = redis.pcall('HMGET', KEYS[3], unpack(fields)), {}
    for n, i in ipairs(indices) do
        idle[i] = found[n] and string.match(found[n], '^%d+$')
    end
    return idle
end

-- Adds the lines of live accounts. Returns permits held and tickets waiting of
-- them, and whether these are all.
local function account_lines(shard, key, name)
    local sessions, accounts, all = list_accounts(key)
    local held, waiting, reuse = {}, {}, {}
    local all_held, all_waiting, last = 0, 0, #reply
    load_sessions(shard, sessions)
    for i, session in ipairs(sessions) do
        local declared = declared_of[session]
        if declared then
            local epoch
            -- R11: text of an account
            epoch, held[i], waiting[i], reuse[i] =
                string.match(accounts[i], '^(%d+) (%d+) (%d+) ?(%d?)')
            if epoch and epoch ~= declared and epoch - declared < 0 then
                held[i] = nil
            end
        end
    end
    local idle = load_idle(name, sessions, reuse)
    for i, session in ipairs(sessions) do
        local permits, unused = held[i], idle[i]
        if permits then
            all_held = all_held + permits
            all_waiting = all_waiting + waiting[i]
            if unused and unused - permits > 0 then unused = permits end
            last = last + 1
            reply[last] = 'account ' .. session .. ' ' .. permits .. ' '
                .. waiting[i] .. ' ' .. (unused or '0') .. words_of[session]
        end
    end
    return all_held, all_waiting, all
end

-- Configurations shown that ask for another limit than the lowest, at most.
local OTHERS = 8

-- Live configurations with another limit than the lowest, from the field of a
-- name, or false: the limit, and a node that has it.
local function limits_others(key, text)
    local list, fields = {}, {}
    local from = string.find(text or '', ';', 1, true)
    local lowest = from and limits_lowest(text)
    while from and #list < OTHERS do
        local limit, last = string.match(text, '^(%d+)[=%d-]*()',
            from + 1)
        local stop = string.find(text, ';', from + 1, true)
        while last and #list < OTHERS do
            local id
            id, last = string.match(text, '^ (%x+)()', last)
            if id and tonumber(limit) ~= lowest then
                list[#list + 1] = { limit = tonumber(limit) }
                fields[#list] = 'config:' .. id
            end
        end
        from = stop
    end
    if #list == 0 then return list end
    local configs, live = redis.call('HMGET', key, unpack(fields)), {}
    for i, config in ipairs(list) do
        local sessions, node =
            string.match(configs[i] or '', '^(%d+) .* ([%w._-]+) %x+$')
        if node and #node <= 255 and sessions ~= '0' then
            config.node = node
            live[#live + 1] = config
        end
    end
    return live
end

local function words(number)
    return number and string.format('%.0f', number) or '-'
end

-- Adds the lines of the servers of a pool: those with permits, then those of
-- lists, most of which have the same ones, and of the order. Without a head it
-- may be one. Returns whether these are all.
local function server_lines(key, head, ordered)
    local lists, held = string.match(head, ' /%d+;%S-;(%S-);(.*)$')
    if not lists and (head ~= '' or not next(ordered)) then return true end
    lists = lists or ''
    local fields, servers, limits, permits = {}, {}, {}, {}
    for id in string.gmatch(lists, '([%x*]+)=[1-9]') do
        if #fields < LISTS then fields[#fields + 1] = 'list:' .. id end
    end
    local texts = fields[1] and redis.call('HMGET', key, unpack(fields)) or {}
    local room, known, count = servers_left + fields_left, {}, 0
    local all = true
    table.insert(texts, 1, held or '')
    for i, text in ipairs(texts) do
        local of = i == 1 and permits or limits
        for pair in string.gmatch(text or '', '%S+') do
            if i == 1 or not known[pair] then
                -- R14: encoded name
                local server, n = string.match(pair,
                    '^([%w._:%%~-]+)=(%d+)$')
                room = room - 1
                if room < 0 or not server or #server > 200 or #n > 10 then
                    all = false
                    break
                end
                known[pair] = i > 1
                local had = of[server]
                if not had and not permits[server] then
                    count = count + 1
                    servers[count] = server
                end
                if not had or n - had > 0 then of[server] = n end
            end
        end
        if room < 0 then break end
    end
    servers_left = room - fields_left
    for server in pairs(ordered) do
        if not permits[server] and not limits[server] then
            servers[#servers + 1] = server
        end
    end
    for _, server in ipairs(servers) do
        reply[#reply + 1] = 'server ' .. server .. ' '
            .. (permits[server] or '0') .. ' ' .. (limits[server] or '-')
            .. ' ' .. words(ordered[server])
    end
    return all
end

-- Adds the lines of one semaphore.
local function semaphore_lines(shard, key, auto, name, order, limits)
    local head = redis.pcall('HGET', key, '.')
    -- R10: head of a semaphore
    local held, waiting, limit = string.match(
        type(head) == 'string' and head or '', '^(%d+) (%d+) (%d+) ')
    -- R16: limit in force
    local view, at = { limit = limits_lowest(limits) or tonumber(limit) },
        #reply + 1
    local configured = view.limit
    local found = limits_sign(limits)
    reply[at] = ''
    order_apply(view, order)
    local all = true
    if held then
        local live_held, live_waiting
        live_held, live_waiting, all = account_lines(shard, key, name)
        if all then held, waiting = live_held, live_waiting end
    end
    for _, config in ipairs(limits_others(shard.key, limits)) do
        reply[#reply + 1] = string.format('asks %.0f %s', config.limit,
            config.node)
    end
    all = server_lines(key, held and head or '', view.servers or {}) and all
    reply[at] = string.format('semaphore %s %.0f %.0f %s %s %s %d %d',
        name, held or 0, waiting or 0, words(view.limit), words(configured),
        words((order_parse(order))), view.paused and 1 or 0, all and 0 or 1)
        .. (found and auto_lines(auto, shard.clock) or '')
end

local fields = { '.', 'watched' }
for i = 1, names do
    fields[2 * i + 1] = 'order:' .. ARGV[5 + i]
    fields[2 * i + 2] = 'limit:' .. ARGV[5 + i]
end
local values = redis.call('HMGET', KEYS[1], unpack(fields))
if not text_layout(reply, values[1]) then return text_end(reply) end

local shard = shard_parse(KEYS[1], values[1])
local live = shard and redis.call('ZCOUNT', KEYS[2], string.format('(%.0f',
    shard.clock), '+inf') or 0
if shard then
    watched(shard, values[2])
else
    shard = { key = KEYS[1], gen = 0, clock = 0, recover_until = 0 }
end
reply[2] = string.format('shard %.0f %.0f %.0f %.0f', shard.gen, shard.clock,
    math.max(shard.recover_until - shard.clock, 0), live)
for i = 1, names do
    semaphore_lines(shard, KEYS[2 + 2 * i], KEYS[3 + 2 * i], ARGV[5 + i],
        values[2 * i + 1], values[2 * i + 2])
end
return text_end(reply)
