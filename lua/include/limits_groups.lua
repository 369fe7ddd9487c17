-- Groups of configurations in the field of a name, see limits.lua. A field is
-- long where many nodes have configurations of their own: it is searched by
-- halves, and never taken apart.
-- A limit is a text as configure states it, "limit" or "start=min-max".

-- First character of the first group that begins at a place or behind it.
local function limits_next(text, at)
    return at == 1 and 1 or string.find(text, ';', at - 1, true) + 1
end

-- The place behind the groups with lower or equal limits.
local function limits_place(text, number)
    local low, high = 1, #text + 1
    while low < high do
        local middle = math.floor((low + high) / 2)
        local limit = string.match(text, '^%d+', limits_next(text, middle))
        if limit and tonumber(limit) <= number then
            low = middle + 1
        else
            high = middle
        end
    end
    return limits_next(text, low)
end

-- First character and semicolon of the group that has a limit; nil: none has
-- it. The number of a group with limit=auto moves, its bounds do not.
local function limits_group(text, limit)
    local bounds = string.match(limit, '=.+')
    local at
    if bounds then
        at = string.find(text, bounds .. ' ', 1, true)
        while at and at > 1 and string.find(text, '^%d', at - 1) do
            at = at - 1
        end
    else
        at = limits_place(text, limit - 1)
        while string.find(text, '^' .. limit .. '=', at) do
            at = limits_next(text, at + 1)
        end
        at = string.find(text, '^' .. limit .. ' ', at)
    end
    return at, at and string.find(text, ';', at, true)
end

-- The blank before the id of a configuration in a group, and the end of the
-- id; nil: it is not there.
local function limits_member(text, first, stop, id)
    local group = string.sub(text, first, stop - 1) .. ' '
    local at = string.find(group, ' ' .. id .. ' ', 1, true)
    if at then return first + at - 1, first + at - 1 + #id end
end
