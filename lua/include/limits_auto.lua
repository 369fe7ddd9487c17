-- Groups of configurations with limit=auto in the field of a name, see
-- limits.lua: "limit=min-max id id ...", one group for each pair of bounds.
-- The limit of such a group is the number found, kept within its bounds. Plain
-- searches: a field may be long where many nodes have configurations of their
-- own.

-- the largest limit that is found
local AUTO_MAX = 1000000

-- The number n, or the bound that it exceeds.
local function limits_clamp(n, min, max)
    return math.max(min, math.min(max, n))
end

-- The groups with limit=auto: { first and last character, number, min, max }.
local function limits_auto_groups(text)
    local list, at = {}, 1
    while text do
        local sign = string.find(text, '=', at, true)
        if not sign then break end
        local first = sign
        while first > 1 and string.find(text, '^%d', first - 1) do
            first = first - 1
        end
        local min, max = string.match(text, '^=(%d+)-(%d+)', sign)
        at = string.find(text, ';', sign, true) or #text + 1
        list[#list + 1] = { first, at - 1,
            tonumber(string.sub(text, first, sign - 1)), tonumber(min),
            tonumber(max) }
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

-- Inserts a group behind those with lower or equal limits.
local function limits_insert(text, group, number)
    local at = 1
    while at <= #text do
        if tonumber(string.match(text, '^%d+', at)) > number then
            return string.sub(text, 1, at - 1) .. group .. ';'
                .. string.sub(text, at)
        end
        at = (string.find(text, ';', at, true) or #text) + 1
    end
    return text == '' and group or text .. ';' .. group
end

-- The field with another number found.
local function limits_auto_move(text, found)
    local groups = limits_auto_groups(text)
    local others, at, moved = {}, 1, {}
    for i, group in ipairs(groups) do
        local first, last = group[1], group[2]
        local number = limits_clamp(found, group[4], group[5])
        others[i] = string.sub(text, at, first - 1)
        at = last + 2
        moved[i] = { number, string.format('%.0f%s', number, string.sub(text,
            (string.find(text, '=', first, true)), last)) }
    end
    others[#others + 1] = string.sub(text, at)
    text = string.gsub(table.concat(others), ';$', '')
    for _, group in ipairs(moved) do
        text = limits_insert(text, group[2], group[1])
    end
    return text
end
