-- Checks of ARGV, made before the first write: Redis does not roll a script
-- back, so a later error would leave half of its changes. Lists of integers are
-- read by integers.lua.

-- @include "include/argument_names.lua"

-- The decimal integer in ARGV[i], from min (default 0) to max (default 2^53,
-- the largest integer that Lua represents exactly). An error names the index.
local function integer(i, min, max)
    local text = ARGV[i]
    local n = text and string.find(text, '^-?%d+$') and tonumber(text)
    if not n or n < (min or 0) or n > (max or 2^53) then
        error('DSEM argument ' .. i .. ' is not an integer in range', 0)
    end
    return n
end

-- The id of a configuration in ARGV[i], or "-".
local function configuration_id(i)
    local id = ARGV[i]
    if id ~= '-' and not string.find(id or '', '^%x+$') then
        error('DSEM argument ' .. i .. ' is not a configuration', 0)
    end
    return id
end

-- The encoded name of a semaphore in ARGV[i].
local function encoded_name(i)
    if not is_encoded(ARGV[i] or '') then
        error('DSEM argument ' .. i .. ' is not an encoded name', 0)
    end
    return ARGV[i]
end
