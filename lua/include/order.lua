-- Orders: the operator's limit and pause of one semaphore, "<limit> <pause>" in
-- the field "order:<name>" of the shard. Limit "-": the configured one. Of a
-- pool limits of single servers may follow, " <server>=<limit>" each. An order
-- that was set by hand may be malformed; it is ignored.

local ORDER_MAX_LIMIT = 1000000000
-- bytes of limit and pause, and of servers; servers, at most
local ORDER_BYTES, ORDER_SERVERS_BYTES, ORDER_SERVERS = 12, 16384, 64

-- The limit in the text of an order; nil: it is none.
local function order_limit(text)
    local limit = string.find(text, '^%d+$') and tonumber(text)
    return limit and limit <= ORDER_MAX_LIMIT and limit or nil
end

-- The limits of servers, by name, from the end of an order; nil: malformed.
local function order_servers(text)
    local servers, count, length = {}, 0, 0
    for server, n in string.gmatch(text, ' ([^ =]+)=(%d+)') do
        local limit = order_limit(n)
        if servers[server] or not limit or not is_encoded(server) then
            return nil
        end
        servers[server], count = limit, count + 1
        length = length + #server + #n + 2
    end
    return length == #text and count <= ORDER_SERVERS and servers or nil
end

-- The limit, nil: the configured one; whether the semaphore is paused; and
-- limits of servers, nil: there are none. All are nil if there is no order, or
-- if it is malformed.
local function order_parse(text)
    if not text or #text > ORDER_BYTES + ORDER_SERVERS_BYTES then return nil end
    local limit, paused, rest = string.match(text, '^(%S+) ([01])(.*)$')
    if not limit or #limit + 2 > ORDER_BYTES then return nil end
    local servers = rest ~= '' and order_servers(rest)
    if servers == nil then return nil end
    if limit == '-' then return nil, paused == '1', servers or nil end
    limit = order_limit(limit)
    if limit then return limit, paused == '1', servers or nil end
end

-- Applies the order to the view of a command: view.limit is the limit without
-- orders, if there is one. view.capacity is the limit of all
-- permits together: a pool raises it, see pool.lua. view.servers: limits of
-- servers.
local function order_apply(view, text)
    local limit, paused, servers = order_parse(text)
    view.limit = limit or view.limit
    view.capacity, view.paused = view.limit, paused
    view.servers = servers
    view.malformed = text and paused == nil and text
end
