-- The functions of pools, see pool.lua.

pools = {
    -- the list of an account whose session cannot use any server, and of one
    -- whose list is not kept, as there are too many: its next sync states it
    no_server = '-', unlisted = '?'
}

-- Lists of one pool, and servers of one list.
local POOL_LISTS, POOL_SERVERS = 32, 64

-- Tickets that get a permit by one call, at most: each may be of a session with
-- another list.
local POOL_GRANTS = 32

-- "<server>=<n> ..." as a table, and the names in order.
local function pool_numbers(text)
    local numbers, names, count = {}, {}, 0
    for server, n in string.gmatch(text or '', '([^ ,=]+)=(%d+)') do
        count = count + 1
        numbers[server], names[count] = tonumber(n), server
    end
    return numbers, names
end

-- "<server>=<n> ..." in ARGV[i], or in a part of it. Returns a table and the
-- sum.
local function pool_argument(i, part)
    local text = part or ARGV[i] or ''
    local numbers, count, sum, length = {}, 0, 0, -1
    for server, n in string.gmatch(text, '([^ =]+)=([1-9]%d*)') do
        if numbers[server] or not is_encoded(server) or #n > 10 then break end
        numbers[server], count = tonumber(n), count + 1
        sum, length = sum + numbers[server], length + #server + #n + 2
    end
    -- with one blank between two of them it is as long as these
    if length ~= #text and text ~= '' or count > POOL_SERVERS then
        error('DSEM argument ' .. i .. ' is not a list of servers', 0)
    end
    return numbers, sum
end

-- The id of a list in ARGV[i], and its text if that is stated.
local function pool_list_argument(i)
    local id, stated = string.match(ARGV[i] or '', '^(%x+) (.+)$')
    id = id or ARGV[i] or ''
    if stated then pool_argument(i, stated) end
    if #id > 32 or not string.find(id, '^%x+$') and id ~= pools.no_server then
        error('DSEM argument ' .. i .. ' is not a list of servers', 0)
    end
    return id, stated
end

-- Permits by server as text, with a blank before each.
function pools.servers(numbers)
    local list, count = {}, 0
    for server, n in pairs(numbers) do
        if n > 0 then
            count = count + 1
            list[count] = ' ' .. server .. '=' .. n
        end
    end
    return table.concat(list)
end

-- What the head has of a pool, parsed. full: lists without a free server,
-- skipped: those of the tickets up to the cursor; rests: it has no head, as no
-- permit was out.
function pools.parse(text)
    local turn, cursor, lists, held = string.match(text,
        '^(%d+);(%S-);(%S-);(.*)$')
    local place, ids = string.match(cursor or '', '^(%-?%d+):(%S+)$')
    local skipped = {}
    for id in string.gmatch(ids or '', '[^,]+') do skipped[id] = true end
    return {
        turn = tonumber(turn) or 0, rests = not turn,
        cursor = tonumber(place), skipped = skipped,
        lists = pool_numbers(lists), stored = pool_numbers(lists),
        held = pool_numbers(held), full = {},
        known = { ['list:' .. pools.no_server] = { limits = {}, names = {} },
            ['list:' .. pools.unlisted] = false }
    }
end

-- A list from its text.
local function pool_list_parse(text)
    local limits, names = pool_numbers(text)
    return { limits = limits, names = names, text = text }
end

-- A list as its text, or parsed; false: it is unknown.
local function pool_list_read(sem, id)
    local field, pool = 'list:' .. id, sem.pool
    if pool.known[field] == nil then
        pool.known[field] = redis.call('HGET', sem.key, field)
    end
    return pool.known[field], field
end

-- A list, parsed; false: it is unknown.
local function pool_list(sem, id)
    local list, field = pool_list_read(sem, id)
    if type(list) == 'string' then
        list = pool_list_parse(list)
        sem.pool.known[field] = list
    end
    return list
end

-- Keeps a list that is stated, nil: that without servers.
local function pool_state(sem, id, text)
    if text then sem.pool.known['list:' .. id] = pool_list_parse(text) end
end

-- The list and the permits by server at the end of an account, and what is
-- before them.
function pools.account(text)
    local plain, list, at = string.match(text or '', '^(.-) @(%S+)(.*)$')
    return plain or text, list, pool_numbers(at)
end

-- The limit in force of a server: that of the semaphore, or a lower one that
-- its list states, or that an order has for it.
local function pool_limit(view, server, stated)
    local limit = math.min(view.limit, stated)
    local ordered = view.servers
    return ordered and math.min(limit, ordered[server] or limit) or limit
end

-- The limits in force of the servers of a list, by their numbers. They are the
-- same for the whole call, which needs them for each grant.
local function pool_most(view, list)
    local most = view.most[list]
    if most then return most end
    most = {}
    for n, server in ipairs(list.names) do
        most[n] = pool_limit(view, server, list.limits[server])
    end
    view.most[list] = most
    return most
end

-- All permits of a list, and those held above the limits of its servers.
local function pool_size(sem, list, view)
    local most, held, all, over = pool_most(view, list), sem.pool.held, 0, 0
    for n, server in ipairs(list.names) do
        local above = (held[server] or 0) - most[n]
        all = all + most[n]
        if above > 0 then over = over + above end
    end
    return all, over
end

-- The server of a list with the largest part free, of equal ones the next in
-- turn, and its number in the list; nil: all are taken. Once a list is full it
-- stays so: permits are taken back before any is granted.
local function pool_choose(sem, view, id)
    local pool, list = sem.pool, pool_list(sem, id)
    if not list or pool.full[id] then return nil end
    local names, most, held = list.names, pool_most(view, list), pool.held
    local size, best, least, number = #names, nil, 1, nil
    for i = pool.turn, pool.turn + size - 1 do
        local n = i % size + 1
        local has, limit = held[names[n]] or 0, most[n]
        -- R1: room for a permit
        if has < limit and has / limit < least then
            best, least, number = names[n], has / limit, n
            if has == 0 then break end
        end
    end
    if not best then pool.full[id] = true end
    return best, number
end

-- Whether a list has a free server. Most are looked at only for this: they are
-- not parsed.
local function pool_free(sem, view, id)
    local pool, most, ordered = sem.pool, view.limit, view.servers
    if pool.full[id] then return false end
    local list = pool_list_read(sem, id)
    if type(list) ~= 'string' then return pool_choose(sem, view, id) end
    for server, n in string.gmatch(list, '([^ ,=]+)=(%d+)') do
        local has = pool.held[server] or 0
        -- R1: room for a permit
        if has < most and has - n < 0
            and not (ordered and has >= (ordered[server] or most))
        then
            return true
        end
    end
    pool.full[id] = true
    return false
end

-- Whether any list has a free server; that of this call may be new.
function pools.any(sem, view)
    if view.list and pool_choose(sem, view, view.list) then return true end
    for id in pairs(sem.pool.lists) do
        if pool_free(sem, view, id) then return true end
    end
    return false
end

-- Whether the next call goes on.
function pools.enough(view)
    return #view.served >= POOL_GRANTS
end

-- Adds permits of one server to an account and to the sums.
local function pool_add(sem, account, server, n)
    account.at[server] = (account.at[server] or 0) + n
    sem.pool.held[server] = (sem.pool.held[server] or 0) + n
    account_add(sem, account, n, 0)
end

-- Grants a permit of a server to an account.
function pools.grant(sem, account, server, number)
    pool_add(sem, account, server, 1)
    sem.pool.turn = number
end

-- An account ends: the permits of its servers are free.
function pools.void(sem, account)
    for server, n in pairs(account.at) do
        sem.pool.held[server] = math.max((sem.pool.held[server] or 0) - n, 0)
    end
    account.at = {}
end

-- Decides about the ticket of a session that can be served: 'skip': the
-- servers that it can use are taken, while others may be free.
-- R7: queue order
function pools.decide(sem, view, ticket, account)
    local pool, list = sem.pool, account.list or pools.unlisted
    -- its next sync states it again
    if not pool.full[list] and not pool_list(sem, list) then return 'park' end
    ticket.server, ticket.at = pool_choose(sem, view, list)
    if ticket.server then return 'grant' end
    pool.skipped[list] = true
    -- tickets with keys may have equal places, of which not all may be met
    if ticket.place ~= pool.last then
        pool.before, pool.last = pool.last, ticket.place
    end
    return 'skip'
end

-- The cursor: a place up to which all tickets were stepped over, so that a
-- call that has used up its steps is followed by one that goes on behind them.
-- It holds while the lists of those tickets have no free server. nil: the queue
-- is served from its head.
function pools.behind(sem, view)
    local pool = sem.pool
    -- of tickets that were met at the end of the queue
    pool.before, pool.last = nil, nil
    for id in pairs(pool.cursor and pool.skipped or {}) do
        if pool_choose(sem, view, id) then pool.cursor = nil end
    end
    if not pool.cursor then pool.skipped = {} end
    return pool.cursor
end

-- A ticket of this list is, or may be, before the cursor.
local function pool_before(sem, view, id)
    local pool = sem.pool
    if not pool.cursor then return end
    if pool_choose(sem, view, id) then
        pool.cursor = nil
    else
        pool.skipped[id] = true
    end
end

-- An account is written; ends: it is deleted. Counts its list. Returns true if
-- there are too many: the account has lost it.
function pools.count(sem, account, ends)
    local lists, before, after = sem.pool.lists, account.had, account.list
    if ends then after = nil end
    if before == after then return end
    if lists[before] then lists[before] = lists[before] - 1 end
    if not after or after == pools.no_server or after == pools.unlisted then
        return
    end
    if (lists[after] or 0) == 0 then
        local number = 0
        for _, accounts in pairs(lists) do
            if accounts > 0 then number = number + 1 end
        end
        if number >= POOL_LISTS then
            account.list = pools.unlisted
            return true
        end
    end
    lists[after] = (lists[after] or 0) + 1
end

-- What the head has of the pool. Writes the lists that are new, and deletes
-- those that no account has any more.
function pools.text(sem)
    local pool, lists, skipped = sem.pool, {}, {}
    for id, accounts in pairs(pool.lists) do
        local field = 'list:' .. id
        if accounts > 0 then
            lists[#lists + 1] = id .. '=' .. accounts
            if not pool.stored[id] then
                sem.set[#sem.set + 1] = field
                sem.set[#sem.set + 1] = pool_list(sem, id).text
            end
        else
            sem.gone[#sem.gone + 1] = field
        end
    end
    for id in pairs(pool.skipped) do skipped[#skipped + 1] = id end
    local cursor = sem.waiting > 0 and pool.cursor and skipped[1]
    return string.format(' /%d;%s;%s;%s', pool.turn,
        cursor and string.format('%.0f:%s', pool.cursor,
            table.concat(skipped, ',')) or '',
        table.concat(lists, ','), string.sub(pools.servers(pool.held), 2))
end
