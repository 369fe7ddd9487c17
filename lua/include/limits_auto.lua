-- The group of configurations with limit=auto in the field of a name, see
-- limits.lua: "limit=min-max id id ...". There is one: its limit is the number
-- found, kept within the bounds in force, which are the lowest of each. What
-- each configuration asks for is in another field, which only those read that
-- come or go.

-- @include "include/limits_groups.lua"
-- @include "include/limits_lowest.lua"

-- the largest limit that is found
local AUTO_MAX = 1000000

-- The number n, or the bound that it exceeds.
local function limits_clamp(n, min, max)
    return math.max(min, math.min(max, n))
end

-- The group with limit=auto: its first character, limit, min, max, the ids
-- with a blank before each, and the place behind it; nil: there is none.
local function limits_auto_group(text)
    local sign = limits_sign(text)
    if not sign then return nil end
    local first, number, min, max, ids, stop = string.match(text,
        '()(%d+)=(%d+)-(%d+)([^;]*);()',
        math.max(sign - #tostring(AUTO_MAX), 1))
    return first, tonumber(number), tonumber(min), tonumber(max), ids, stop
end

-- The field with this group with limit=auto.
local function limits_auto_set(text, number, min, max, ids)
    local first, _, _, _, _, stop = limits_auto_group(text)
    if first then
        text = string.sub(text, 1, first - 1) .. string.sub(text, stop)
    end
    number = limits_clamp(number, min, max)
    local at = limits_place(text, number)
    return string.format('%s%.0f=%.0f-%.0f%s;%s', string.sub(text, 1, at - 1),
        number, min, max, ids, string.sub(text, at))
end

-- The lowest plain limit; nil: there is none.
local function limits_plain(text)
    local at = 1
    while at do
        local number, sign = string.match(text, '^(%d+)(=?)', at)
        if sign == '' then return tonumber(number) end
        at = string.find(text, ';', at, true)
        at = at and at + 1
    end
end

-- Reads the group with limit=auto; text: the field, or false. Returns its
-- limit, and the bounds in force, the upper one with a plain limit that is
-- between them. nil: there is no such group.
local function limits_auto(text)
    local first, number, min, max = limits_auto_group(text or '')
    if not first then return nil end
    local plain = limits_plain(text)
    if plain and plain >= min then max = math.min(max, plain) end
    return number, min, max
end

-- The field with another number found.
local function limits_auto_move(text, found)
    local _, _, min, max, ids = limits_auto_group(text)
    return limits_auto_set(text, found, min, max, ids)
end

-- The limit of a configuration as it states it, "start=min-max", as numbers;
-- nil: a plain one.
local function limits_bounds(limit)
    local start, min, max = string.match(limit, '^(%d+)=(%d+)-(%d+)$')
    return tonumber(start), tonumber(min), tonumber(max)
end

-- First character and semicolon of the group with these bounds in the field
-- with the bounds of each configuration; nil: there is none.
local function limits_bounds_group(text, min, max)
    local group = string.format('%.0f-%.0f ', min, max)
    local at = string.sub(text, 1, #group) == group and 1
    if not at then
        at = string.find(text, ';' .. group, 1, true)
        at = at and at + 1
    end
    return at, at and string.find(text, ';', at, true)
end

-- Both fields of a name, with a configuration that has limit=auto. The number
-- is as near to that of the others as all bounds allow.
local function limits_auto_insert(text, limit, bounds, id)
    local number, min, max = limits_bounds(limit)
    local from, last = limits_bounds_group(bounds, min, max)
    bounds = from and limits_add(bounds, from, last, id)
        or string.format('%s%.0f-%.0f %s;', bounds, min, max, id)
    local first, found, low, high, _, stop = limits_auto_group(text)
    if not first then
        return limits_auto_set(text, number, min, max, ' ' .. id), bounds
    end
    text = limits_add(text, first, stop - 1, id)
    local _, _, _, _, ids = limits_auto_group(text)
    return limits_auto_set(text, found, math.min(low, min),
        math.min(high, max), ids), bounds
end

-- Both without it. The bounds of all others are read only where its own
-- were in force.
local function limits_auto_remove(text, limit, bounds, id)
    local _, min, max = limits_bounds(limit)
    local from, last = limits_bounds_group(bounds, min, max)
    if from then bounds = limits_take(bounds, from, last, id) end
    local first, found, low, high, _, stop = limits_auto_group(text)
    if first then text = limits_take(text, first, stop - 1, id) end
    local _, _, _, _, ids = limits_auto_group(text)
    -- one of the fields was lost, or it was the last one
    if not ids or bounds == '' then return text, bounds end
    if min == low or max == high then
        low, high = AUTO_MAX, AUTO_MAX
        for other_min, other_max in string.gmatch(bounds, '(%d+)-(%d+) ') do
            low = math.min(low, tonumber(other_min))
            high = math.min(high, tonumber(other_max))
        end
    end
    return limits_auto_set(text, found, low, high, ids), bounds
end
