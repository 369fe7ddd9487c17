-- The functions of pools, see pool.lua.

pools = {
    -- the list of an account whose session cannot use any server, and that of
    -- the servers in own lists
    no_server = '-', others = '*'
}

-- Lists of one pool beside own ones, servers of one list, and those in own
-- lists.
local POOL_LISTS, POOL_SERVERS, POOL_OTHERS = 32, 64, 256

-- An account that came when there were as many lists has its own one, as text:
-- "!<id>:<server>=<limit>,...", which is used like the id of a list.
local POOL_OWN = '^!%x+:(.*)$'

-- Free servers that are searched in an own list, of more it is read; bytes of
-- it that cost a step more; tickets that are read at first where some have such
-- lists.
local POOL_SEARCHED, POOL_STEP, POOL_PAGE = 4, 512, 16

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
-- skipped: those of the tickets up to the cursor; beyond: free servers that
-- none of these has, of own lists; rests: it has no head, as no permit was out.
function pools.parse(text)
    local turn, cursor, lists, held = string.match(text,
        '^(%d+);(%S-);(%S-);(.*)$')
    local place, ids = string.match(cursor or '', '^(%-?%d+):(%S+)$')
    local skipped, beyond = {}, nil
    for id in string.gmatch(ids or '', '[^,]+') do
        local servers = string.match(id, '^%*(.*)$')
        if servers then
            beyond = {}
            for server in string.gmatch(servers, '[^/]+') do
                beyond[server] = true
            end
        end
        skipped[servers and pools.others or id] = true
    end
    return {
        turn = tonumber(turn) or 0, rests = not turn,
        cursor = tonumber(place), skipped = skipped,
        lists = pool_numbers(lists), stored = pool_numbers(lists),
        held = pool_numbers(held), full = {}, beyond = beyond,
        known = { ['list:' .. pools.no_server] = { limits = {}, names = {} } }
    }
end

-- A list from its text.
local function pool_list_parse(text)
    local limits, names = pool_numbers(text)
    return { limits = limits, names = names, text = text }
end

-- As what a list counts in the head, nil: it does not.
local function pool_counted(list)
    if not list or list == pools.no_server then return nil end
    return string.byte(list) == 33 and pools.others or list
end

-- A list as its text, or parsed; false: it is unknown.
local function pool_list_read(sem, id)
    local field, pool = 'list:' .. id, sem.pool
    if pool.known[field] == nil then
        pool.known[field] = string.match(id, POOL_OWN)
            or redis.call('HGET', sem.key, field)
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

-- The servers of two lists with their highest limits, as one list; where they
-- are too many, those of the second one.
local function pool_join(text, other)
    local limits, names = pool_numbers(text)
    for server, n in string.gmatch(other, '([^ ,=]+)=(%d+)') do
        local had = limits[server]
        if not had then names[#names + 1] = server end
        if not had or n - had > 0 then limits[server] = n end
    end
    if #names > POOL_OTHERS then return other end
    for i, server in ipairs(names) do
        names[i] = server .. '=' .. limits[server]
    end
    return table.concat(names, ' ')
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
    local pool = sem.pool
    local list = not pool.full[id] and pool_list(sem, id)
    if not list then return nil end
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
    if type(list) ~= 'string' or id == pools.others then
        return pool_choose(sem, view, id)
    end
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

-- The servers in own lists that were free when this call began to grant
-- permits; their limits are in pool.room.
local function pool_others(sem, view)
    local pool, list = sem.pool, pool_list(sem, pools.others)
    if pool.free or not list then return pool.free or {} end
    pool.free, pool.room = {}, {}
    for n, limit in ipairs(pool_most(view, list)) do
        local server = list.names[n]
        if (pool.held[server] or 0) < limit then
            pool.free[#pool.free + 1], pool.room[server] = server, limit
        end
    end
    return pool.free
end

-- Whether an own list may have a free server.
local function pool_reaches(sem, view, list)
    local free = pool_others(sem, view)
    if #free > POOL_SEARCHED then return true end
    for _, server in ipairs(free) do
        if string.find(list, server .. '=', 1, true) then return true end
    end
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

-- Tickets of the first page.
function pools.page(sem, size)
    return (sem.pool.lists[pools.others] or 0) > 0
        and math.min(size, POOL_PAGE) or size
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
    local pool, list = sem.pool, account.list or ''
    local own = pool_counted(list) == pools.others
    if not pool.full[list] then
        -- its next sync states it again
        if not pool_list_read(sem, list) then return 'park' end
        if not own or pool_reaches(sem, view, list) then
            if pool_free(sem, view, list) then
                ticket.server, ticket.at = pool_choose(sem, view, list)
                return 'grant'
            end
        end
    end
    if own then view.steps = view.steps - math.floor(#list / POOL_STEP) end
    pool.skipped[own and pools.others or list] = true
    -- tickets with keys may have equal places, of which not all may be met
    if ticket.place ~= pool.last then
        pool.before, pool.last = pool.last, ticket.place
    end
    return 'skip'
end

-- Whether a server in own lists is free that tickets before the cursor may use.
local function pool_others_free(sem, view)
    local beyond = sem.pool.beyond or {}
    for _, server in ipairs(pool_others(sem, view)) do
        if not beyond[server] then return true end
    end
    return false
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
        local free = id == pools.others and pool_others_free or pool_free
        if free(sem, view, id) then pool.cursor = nil end
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
        -- it may be an own one
        if pool.beyond then pool_others(sem, view) end
    end
end

-- Whether a list that no account has may come.
local function pool_fits(lists)
    local number = 0
    for id, accounts in pairs(lists) do
        if accounts > 0 and id ~= pools.others then number = number + 1 end
    end
    return number < POOL_LISTS
end

-- The account has its own list. One more is joined with those of the others.
local function pool_own(sem, account)
    local pool, id = sem.pool, account.list
    local text = pool_list(sem, id).text
    account.list = '!' .. id .. ':' .. string.gsub(text, ' ', ',')
    if account.list == account.had then return end
    local had = (pool.lists[pools.others] or 0) > 0
        and pool_list(sem, pools.others)
    local joined = pool_join(had and had.text or '', text)
    if not had or joined ~= had.text then
        pool_state(sem, pools.others, joined)
        pool.stored[pools.others] = nil
    end
end

-- An account is written; ends: it is deleted. Counts its list. Returns true if
-- there are too many: it has its own one.
function pools.count(sem, account, ends)
    local lists = sem.pool.lists
    local before = pool_counted(account.had)
    local after = not ends and pool_counted(account.list) or nil
    if before == after then return end
    if lists[before] then lists[before] = lists[before] - 1 end
    local own = after and (lists[after] or 0) == 0 and not pool_fits(lists)
    if own then
        pool_own(sem, account)
        after = pools.others
    end
    if after then lists[after] = (lists[after] or 0) + 1 end
    return own
end

-- The cursor as text. A list that is not kept is one of the own ones.
local function pool_cursor(sem)
    local pool, skipped, own = sem.pool, {}, nil
    for id in pairs(pool.skipped) do
        if id == pools.no_server or (pool.lists[id] or 0) > 0
            and id ~= pools.others
        then
            skipped[#skipped + 1] = id
        else
            own = true
        end
    end
    if own then
        local beyond = {}
        for server in pairs(pool.room or pool.beyond or {}) do
            -- one that was taken since may be in a list that was skipped then
            if not pool.room
                or (pool.held[server] or 0) < pool.room[server]
            then
                beyond[#beyond + 1] = server
            end
        end
        skipped[#skipped + 1] = pools.others .. table.concat(beyond, '/')
    end
    return string.format('%.0f:%s', pool.cursor, table.concat(skipped, ','))
end

-- What the head has of the pool. Writes the lists that are new, and deletes
-- those that no account has any more.
function pools.text(sem)
    local pool, lists = sem.pool, {}
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
    return string.format(' /%d;%s;%s;%s', pool.turn,
        sem.waiting > 0 and pool.cursor and pool_cursor(sem) or '',
        table.concat(lists, ','), string.sub(pools.servers(pool.held), 2))
end
