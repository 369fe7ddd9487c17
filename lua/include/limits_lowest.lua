-- The limit in force of a name with literal limits, see limits.lua: its field
-- has the lowest one first, with the configurations that ask for it.

-- The lowest limit of a name, from its field; nil: no configuration has it.
local function limits_lowest(text)
    -- R16: limit in force
    return text and tonumber(string.match(text, '^%d+'))
end

-- The "=" in a name's field, or in the limit that a configuration states; nil:
-- none has limit=auto.
local function limits_sign(text)
    return text and string.find(text, '=', 1, true)
end
