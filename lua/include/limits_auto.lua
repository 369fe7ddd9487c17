-- Groups of configurations with limit=auto in the field of a name, see
-- limits.lua: "limit=min-max id id ...", one group for each pair of bounds.
-- The limit of such a group is the number found, kept within its bounds.

-- @include "include/limits_groups.lua"

-- the largest limit that is found
local AUTO_MAX = 1000000

-- The number n, or the bound that it exceeds.
local function limits_clamp(n, min, max)
    return math.max(min, math.min(max, n))
end

-- The next group with limit=auto from a place on: its first character, number,
-- min and max, as text, and the place behind them; nil: there is none.
local function limits_auto_next(text, at)
    local sign = string.find(text, '=', at, true)
    if not sign then return nil end
    return string.match(text, '()(%d+)=(%d+)-(%d+)()',
        math.max(sign - #tostring(AUTO_MAX), at))
end

-- The groups with limit=auto: { first character, semicolon, number, min, max }.
local function limits_auto_groups(text)
    local list, at = {}, 1
    while text do
        local first, number, min, max, stop = limits_auto_next(text, at)
        if not first then break end
        stop = string.find(text, ';', stop, true)
        list[#list + 1] = { first, stop, tonumber(number), tonumber(min),
            tonumber(max) }
        at = stop + 1
    end
    return list
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

-- Reads the groups with limit=auto; text: the field, or false. Returns their
-- lowest number, and the bounds in force: of each the lowest, and as the upper
-- one a plain limit that is between them. nil: there are none.
local function limits_auto(text)
    local lowest, low, high
    for _, group in ipairs(limits_auto_groups(text)) do
        local number, min, max = group[3], group[4], group[5]
        lowest = math.min(lowest or number, number)
        low, high = math.min(low or min, min), math.min(high or max, max)
    end
    local plain = lowest and limits_plain(text)
    if plain and plain >= low then high = math.min(high, plain) end
    return lowest, low, high
end

-- The field with another number found.
local function limits_auto_move(text, found)
    local others, from, moved = {}, 1, {}
    for i, group in ipairs(limits_auto_groups(text)) do
        local first, stop = group[1], group[2]
        local number = limits_clamp(found, group[4], group[5])
        others[i] = string.sub(text, from, first - 1)
        from = stop + 1
        moved[i] = { number, number .. string.sub(text,
            (string.find(text, '=', first, true)), stop) }
    end
    text = table.concat(others) .. string.sub(text, from)
    table.sort(moved, function(a, b) return a[1] < b[1] end)
    local parts, place, number = {}, 1, nil
    from = 1
    for _, group in ipairs(moved) do
        if group[1] ~= number then
            number = group[1]
            place = limits_place(text, number)
        end
        parts[#parts + 1] = string.sub(text, from, place - 1)
        parts[#parts + 1] = group[2]
        from = place
    end
    return table.concat(parts) .. string.sub(text, from)
end
