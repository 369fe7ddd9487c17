-- Groups of configurations with limit=auto in the field of a name, see
-- limits.lua: "limit=min-max id id ...", one group for each pair of bounds.
-- The limit of such a group is the number found, kept within its bounds.

-- @include "include/limits_groups.lua"

-- the largest limit that is found
local AUTO_MAX = 1000000

local GROUP_AUTO = '^(%d+)=(%d+)-(%d+) '

-- The number n, or the bound that it exceeds.
local function limits_clamp(n, min, max)
    return math.max(min, math.min(max, n))
end

-- Reads the groups with limit=auto; text: the field, or false. Returns their
-- lowest number, and the bounds in force: of each the lowest. nil: there are
-- none.
local function limits_auto(text)
    if not text or not string.find(text, '=', 1, true) then return nil end
    local lowest, low, high
    for _, group in ipairs(limits_groups(text)) do
        local number, min, max = string.match(group, GROUP_AUTO)
        if number then
            number, min, max = tonumber(number), tonumber(min), tonumber(max)
            lowest = math.min(lowest or number, number)
            low, high = math.min(low or min, min), math.min(high or max, max)
        end
    end
    return lowest, low, high
end

-- The groups as text, the lowest limit first; of equal ones in any order.
local function limits_sorted(groups)
    local limit = {}
    for _, group in ipairs(groups) do
        limit[group] = tonumber(string.match(group, '^%d+'))
    end
    table.sort(groups, function(a, b) return limit[a] < limit[b] end)
    return table.concat(groups, ';')
end

-- The field with another number found.
local function limits_auto_move(text, found)
    local groups = limits_groups(text)
    for i, group in ipairs(groups) do
        local _, min, max = string.match(group, GROUP_AUTO)
        if min then
            groups[i] = string.format('%.0f%s', limits_clamp(found,
                tonumber(min), tonumber(max)),
                string.sub(group, (string.find(group, '=', 1, true))))
        end
    end
    return limits_sorted(groups)
end
