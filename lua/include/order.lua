-- Orders: the operator's limit and pause of one semaphore, "<limit> <pause>" in
-- the field "order:<name>" of the shard. Limit "-": the configured one. An
-- order that was set by hand may be malformed; it is ignored.

local ORDER_MAX_LIMIT = 1000000000
-- bytes of the longest order
local ORDER_BYTES = 12

-- The limit in the text of an order; nil: it is none.
local function order_limit(text)
    local limit = string.find(text, '^%d+$') and tonumber(text)
    return limit and limit <= ORDER_MAX_LIMIT and limit or nil
end

-- The limit, nil: the configured one; and whether the semaphore is paused. Both
-- are nil if there is no order, or if it is malformed.
local function order_parse(text)
    if not text or #text > ORDER_BYTES then return nil end
    local limit, paused = string.match(text, '^(%S+) ([01])$')
    if limit == '-' then return nil, paused == '1' end
    limit = limit and order_limit(limit)
    if limit then return limit, paused == '1' end
end

-- Applies the order to what a command knows of a semaphore: view.limit is the
-- limit without orders, if it is known. view.capacity is the limit of all
-- permits together: a pool raises it, see pool.lua.
local function order_apply(view, text)
    local limit, paused = order_parse(text)
    view.limit = limit or view.limit
    view.capacity, view.paused = view.limit, paused
    view.malformed = text and paused == nil and text
end
