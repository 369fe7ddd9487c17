-- Groups of configurations in the field of a name, see limits.lua. A field is
-- long where many nodes have configurations of their own: it is searched by
-- halves, and never taken apart.

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

-- First character and semicolon of the group that has a plain limit; nil: none
-- has it.
local function limits_group(text, limit)
    local at = limits_place(text, limit - 1)
    if string.find(text, '^' .. limit .. '=', at) then
        at = limits_next(text, at + 1)
    end
    at = string.find(text, '^' .. limit .. ' ', at)
    return at, at and string.find(text, ';', at, true)
end

-- The text with the id of a configuration in the group that begins at first;
-- stop: its semicolon.
local function limits_add(text, first, stop, id)
    local group = string.sub(text, first, stop - 1)
    if string.find(group .. ' ', ' ' .. id .. ' ', 1, true) then return text end
    return string.sub(text, 1, stop - 1) .. ' ' .. id .. string.sub(text, stop)
end

-- The text without it, and without the group if it was the only one.
local function limits_take(text, first, stop, id)
    local group = string.sub(text, first, stop - 1) .. ' '
    local from = string.find(group, ' ' .. id .. ' ', 1, true)
    if not from then return text end
    from = first + from - 1
    local to = from + #id
    if to == stop - 1 and string.find(text, ' ', first, true) == from then
        from, to = first, stop
    end
    return string.sub(text, 1, from - 1) .. string.sub(text, to + 1)
end
