-- The groups of a name's field, one per limit, see limits.lua. Plain searches:
-- a field may be long where many nodes have configurations of their own.
local function limits_groups(text)
    local groups, from = {}, 1
    while text do
        local stop = string.find(text, ';', from, true)
        groups[#groups + 1] = string.sub(text, from, (stop or 0) - 1)
        if not stop then break end
        from = stop + 1
    end
    return groups
end
