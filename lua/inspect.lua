-- inspect: what there is of some semaphores, for a display: permits, tickets,
-- limits, and the sessions that have them. It changes nothing but the field
-- "watched" of the shard, a note that somebody looks: until then beats tell idle
-- permits.
--
-- KEYS[1] shard HASH, KEYS[2] sessions ZSET, KEYS[3] idle HASH; then for each
-- of up to 32 semaphores
--   KEYS[4] its HASH
-- ARGV[1] session: string
-- ARGV[2] epoch: integer, echoed
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] accounts to reply of a semaphore, at most: integer, 1 to 1024
-- ARGV[5] time for which beats shall tell idle permits: integer, ms, an hour at
--   most, 0: leave that as it is
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
--   account <session> <held> <waiting> <idle> <ms of lease left> <1: heard from
--     within two heartbeats>
--     for each live session that has an account; if partial of some of them
--   asks <limit> <node>
--     for each live configuration with another literal limit than the lowest, 8
--     at most
--
-- If the status is layout the shard has another one, and no line follows. A key
-- of the wrong type is like one that is missing. Run again it changes nothing
-- but the note. O(n), n accounts that are looked at: 1024 fields of all
-- semaphores together. A semaphore for which that does not suffice is partial.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/shard.lua"
-- @include "include/hash.lua"
-- @include "include/account.lua"
-- @include "include/limits_lowest.lua"
-- @include "include/order.lua"
-- @include "include/text.lua"
-- @include "include/idle.lua"

-- semaphores, and fields of them that are read by one call: a script blocks all
-- other commands
local SEMAPHORES, FIELDS = 32, 1024

local reply = text_begin()
local most, watch = integer(4, 1, 1024), integer(5, 0, LONGEST_WATCH)
local count, left = #KEYS - 3, FIELDS
if count < 0 or count > SEMAPHORES then
    error('DSEM keys are not those of 0 to 32 semaphores', 0)
end
for i = 6, 5 + count do encoded_name(i) end
if #ARGV > 5 + count then
    error('DSEM argument ' .. #ARGV .. ' is not of a semaphore', 0)
end

-- Notes that somebody looks. The note is written anew when a quarter of its
-- time has passed, so that few of many calls write.
local function watched(shard, text)
    if watch > 0 and idle_wanted(shard, text) < watch * 3 / 4 then
        redis.call('HSET', shard.key, 'watched', string.format('%.0f',
            shard.clock + watch))
    end
end

-- What is known of a session, false: it is not live.
local function entry_seen(shard, text)
    local entry = entry_parse(text)
    if not entry or entry.ends <= shard.clock then return false end
    return {
        declared = entry.declared,
        words = string.format(' %.0f %d', entry.ends - shard.clock,
            entry_silent(entry, shard.clock) and 0 or 1)
    }
end

-- Fields and values of accounts, and whether these are all there are.
local function read_accounts(key)
    local size = redis.call('HLEN', key)
    if size <= left and size <= most + 1 then
        left = left - size
        return redis.call('HGETALL', key), true
    end
    if left <= 0 then return {}, false end
    local page = redis.call('HSCAN', key, '0', 'COUNT', math.min(most, left))
    left = left - #page[2] / 2
    return page[2], page[1] == '0'
end

-- Accounts by session, the sessions in order, and whether these are all.
local function list_accounts(key)
    local fields, all = read_accounts(key)
    local sessions, accounts = {}, {}
    for i = 1, #fields, 2 do
        local account = string.find(fields[i], SESSION)
            and account_parse(fields[i + 1])
        if account then
            sessions[#sessions + 1] = fields[i]
            accounts[fields[i]] = account
        end
    end
    return sessions, accounts, all
end

-- The lines of live accounts; and permits held and tickets waiting of them.
local function account_lines(shard, name, sessions, accounts)
    local lines, held, waiting = {}, 0, 0
    hash_load(shard.key, sessions, shard.entries, function(text)
        return entry_seen(shard, text)
    end)
    idle_load(shard, KEYS[3], sessions, accounts)
    for _, session in ipairs(sessions) do
        local entry, account = shard.entries[session], accounts[session]
        if entry and account.epoch >= entry.declared then
            held, waiting = held + account.held, waiting + account.waiting
            lines[#lines + 1] = string.format('account %s %.0f %.0f %.0f%s',
                session, account.held, account.waiting, math.min(account.held,
                idle_of(shard, session, account, name)), entry.words)
        end
    end
    return lines, held, waiting
end

local function words(number)
    return number and string.format('%.0f', number) or '-'
end

-- Adds the lines of one semaphore. head: of it, false: there is none.
local function semaphore_lines(shard, key, name, order, limits)
    local head = redis.pcall('HGET', key, '.')
    local held, waiting, limit = string.match(
        type(head) == 'string' and head or '', '^(%d+) (%d+) (%d+) ')
    local lines, all = {}, true
    if held then
        local sessions, accounts
        sessions, accounts, all = list_accounts(key)
        local live_held, live_waiting
        while #sessions > most do sessions[#sessions], all = nil, false end
        lines, live_held, live_waiting = account_lines(shard, name, sessions,
            accounts)
        if all then held, waiting = live_held, live_waiting end
    end
    local view = { limit = limits_lowest(limits) or tonumber(limit) }
    local configured = view.limit
    order_apply(view, order)
    reply[#reply + 1] = string.format('semaphore %s %.0f %.0f %s %s %s %d %d',
        name, held or 0, waiting or 0, words(view.limit), words(configured),
        words((order_parse(order))), view.paused and 1 or 0, all and 0 or 1)
    for i = 1, #lines do reply[#reply + 1] = lines[i] end
    for _, config in ipairs(limits_others(shard.key, limits)) do
        reply[#reply + 1] = string.format('asks %.0f %s', config.limit,
            config.node)
    end
end

local fields = { '.', 'watched' }
for i = 1, count do
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
shard.entries, shard.idle = {}, {}
reply[2] = string.format('shard %.0f %.0f %.0f %.0f', shard.gen, shard.clock,
    math.max(shard.recover_until - shard.clock, 0), live)
for i = 1, count do
    semaphore_lines(shard, KEYS[3 + i], ARGV[5 + i], values[2 * i + 1],
        values[2 * i + 2])
end
return text_end(reply)
