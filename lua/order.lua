-- order: sets or ends the operator's order of one semaphore: its limit, whether
-- it is paused, or both; or of a pool the limit of one server. It keeps the
-- counts: a lowered limit drains. In the
-- same step it recalls idle permits where the limit in force is below the
-- permits held or the semaphore is paused, and serves the queue.
--
-- KEYS[1] shard HASH, KEYS[2] semaphore HASH, KEYS[3] its queue ZSET
-- ARGV[1] session that sends the command: string
-- ARGV[2] its epoch: integer > 0
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] name of the semaphore: string, percent-encoded
-- ARGV[5] limit: integer, permits, 10^9 at most; "-": the configured one;
--   "=": as it is
-- ARGV[6] 1: pause, 0: no pause, "=": as it is
-- ARGV[7] server that the limit is for: string, percent-encoded; missing: the
--   semaphore, or each server of a pool. With a server ARGV[6] is "="
-- Reply: session (string), epoch, number, status (ok, resync, broken); if ok
--   then limit in force (-1: unknown), configured limit (-1: unknown), limit of
--   the order (-1: none), 1: paused, permits held, tickets waiting, 1: call
--   again with "=" and "=", as work was left, 0: none was; limit of the order
--   before (-1: none), 1: paused before, 0, or why there is no new order: 1:
--   the semaphore is no pool, 2: too many servers have a limit; and the highest
--   configured limit of a server in all lists (-1: there is none): integers.
--   With a server the configured limit, those of the order and the permits held
--   are its own: the highest configured limit of all lists (-1: in none). The
--   limit in force is then what it would be without an order for the server
-- Messages: "grant", "recall" and "reclaimed" as of sync; "grant" and "recall"
--   also to the calling session
--
-- With another status than ok there is no new order. An order without limit,
-- pause and servers is deleted, a malformed one counts as none; "=" and "="
-- write no order. Where the state recovers the order is set, and nothing is
-- granted. A semaphore without a key may have an order, as a server that is in
-- no list.
-- Idempotent but for what it replies of the order before. O(log q), q tickets
-- queued; reads as many tickets, accounts and ended sessions as sync.

-- @include "include/expiry.lua"
-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/clock.lua"
-- @include "include/shard.lua"
-- @include "include/hash.lua"
-- @include "include/pool.lua"
-- @include "include/account.lua"
-- @include "include/pool_rules.lua"
-- @include "include/queue.lua"
-- @include "include/semaphore.lua"
-- @include "include/semaphore_learn.lua"
-- @include "include/view_lose.lua"
-- @include "include/serve.lua"
-- @include "include/recall.lua"
-- @include "include/limits_lowest.lua"
-- @include "include/order.lua"
-- @include "include/publish.lua"

local call = {
    session = session_name(1), epoch = integer(2, 1), number = integer(3),
    name = encoded_name(4)
}
-- of argument 5: "-", "=" or the integer as text; of argument 6: "=", "0", "1"
local limit, pause, server = ARGV[5], ARGV[6], ARGV[7]
local REFUSED = { no = 0, no_pool = 1, servers = 2 }

if limit ~= '-' and limit ~= '=' then
    limit = string.format('%.0f', integer(5, 0, ORDER_MAX_LIMIT))
end
if server then encoded_name(7) end
-- a server is not paused: no integer is in range
if pause ~= '=' then pause = tostring(integer(6, 0, server and -1 or 1)) end

-- Limits of servers as the end of an order, in order; nil: too many.
local function servers_text(servers)
    local list = {}
    for name, most in pairs(servers) do
        list[#list + 1] = string.format(' %s=%.0f', name, most)
    end
    table.sort(list)
    return #list <= ORDER_SERVERS and table.concat(list) or nil
end

-- The text of the new order; nil: none; false: too many servers. A semaphore
-- that is plain loses the limits of servers that it had as a pool, or got at
-- rest, when it may be either: with any order a sync takes no short path.
local function order_text(before, plain)
    local old_limit, paused, servers = order_parse(before)
    local new_limit, new_pause = server and '=' or limit, pause
    servers = not plain and servers or {}
    if server and limit ~= '=' then servers[server] = tonumber(limit) end
    if new_limit == '=' then
        new_limit = old_limit and string.format('%.0f', old_limit) or '-'
    end
    if pause == '=' then new_pause = paused and '1' or '0' end
    local of_servers = servers_text(servers)
    if not of_servers then return false end
    if new_limit == '-' and new_pause == '0' and of_servers == '' then
        return nil
    end
    return new_limit .. ' ' .. new_pause .. of_servers
end

-- Writes the order. Not called unless it can be executed.
local function order_write(before, text)
    local field = 'order:' .. call.name
    if limit == '=' and pause == '=' or text == (before or nil) then
        return
    elseif text then
        redis.call('HSET', KEYS[1], field, text)
    else
        redis.call('HDEL', KEYS[1], field)
    end
end

-- Of a pool: the permits of all lists, and those above their limits. Returns
-- the highest limit of each server.
local function pool_union(sem, view)
    local union = { limits = {}, names = {} }
    for id in pairs(sem.pool.lists) do
        local list = pool_list(sem, id)
        for server, most in pairs(list and list.limits or {}) do
            local had = union.limits[server]
            if not had then union.names[#union.names + 1] = server end
            if not had or most > had then union.limits[server] = most end
        end
    end
    view.capacity, view.over = pool_size(sem, union, view)
    return union.limits
end

-- Serves the queue and recalls idle permits. Returns a status, and the sessions
-- to notify.
local function execute(sem, view)
    semaphore_learn(sem, view)
    sem.limit = view.lowest or sem.limit
    view.union = sem.pool and pool_union(sem, view)
    local first, status = serve(sem, view)
    if not first then return status end
    status = queue_write(sem, view)
    if status ~= STATUS.ok then return status end
    return status, recall(sem, view, sem.waiting - sem.parked)
end

-- Returns the status, and then the rest of the reply.
local function order()
    local values = redis.call('HMGET', KEYS[1], '.', call.session,
        'order:' .. call.name, 'limit:' .. call.name)
    local before = values[3]
    local view = view_new(KEYS[1], call.session, values[1], values[2])
    if not view or view.entry.epoch ~= call.epoch then return STATUS.resync end
    -- no session: the reply has no tickets, all are named by messages
    local sem, fault = semaphore_new(KEYS[2], KEYS[3], '',
        redis.pcall('HMGET', KEYS[2], '.'), view)
    if not sem then return fault end

    local refused, plain = REFUSED.no, sem.text and not sem.pool
    local text = order_text(before, plain)
    if text == false then
        refused = REFUSED.servers
    elseif server and plain and limit ~= '-' then
        refused = REFUSED.no_pool
    end
    if refused ~= REFUSED.no then text = before or nil end
    view.lowest = limits_lowest(values[4])
    view.limit = view.lowest or sem.limit
    local configured = view.limit or -1
    order_apply(view, text)

    -- without it there is no head that is understood
    if sem.limit then
        local status, recalled = execute(sem, view)
        if status == STATUS.resync then view_lose(view) end
        if status ~= STATUS.ok then return status end
        order_write(before, text)
        semaphore_write(sem, view)
        publish_changes(call, sem, view, recalled)
        publish_notes(call, view)
    else
        order_write(before, text)
    end
    local ordered, paused, servers = order_parse(text)
    local old_limit, old_paused, old_servers = order_parse(before)
    local held, in_force, highest = sem.held, view.limit or -1, -1
    for _, most in pairs(view.union or {}) do
        highest = math.max(highest, most)
    end
    if server then
        local stated = view.union and view.union[server]
        configured = stated and math.min(stated, configured) or -1
        in_force = stated and math.min(stated, in_force) or in_force
        ordered = servers and servers[server]
        old_limit = old_servers and old_servers[server]
        held = sem.pool and sem.pool.held[server] or 0
    end
    return STATUS.ok, in_force, configured, ordered or -1,
        paused and 1 or 0, held, sem.waiting, view.more and 1 or 0,
        old_limit or -1, old_paused and 1 or 0, refused, highest
end

return { call.session, call.epoch, call.number, order() }
