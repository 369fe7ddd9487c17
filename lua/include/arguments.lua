-- Checks of ARGV, made before the first write: Redis does not roll a script
-- back, so a later error would leave half of its changes.

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

-- Checks the characters of all arguments from ARGV[first] on in one pattern
-- match: cheaper than integer() for each of them. plain_integer() completes
-- the check.
local function plain_integers(first)
    if string.find(table.concat(ARGV, ',', first), '^[%d,-]*$') then return end
    for i = first, #ARGV do integer(i, -2^53) end
end

-- Same as integer(), for arguments that plain_integers() has checked.
local function plain_integer(i, min, max)
    local n = tonumber(ARGV[i])
    if not n or n < min or n > (max or 2^53) then
        error('DSEM argument ' .. i .. ' is not an integer in range', 0)
    end
    return n
end

-- The session name in ARGV[i]. The colon distinguishes the accounts of a
-- semaphore from its other fields; a blank ends the name in a queue member.
local function session_name(i)
    local name = ARGV[i]
    if not name or not string.find(name, '^[%w._-]+:%d+:%x+$') then
        error('DSEM argument ' .. i .. ' is not a session', 0)
    end
    return name
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
    if not string.find(ARGV[i] or '', '^[%w._:%%~-]+$') then
        error('DSEM argument ' .. i .. ' is not an encoded name', 0)
    end
    return ARGV[i]
end

-- The run id of a Redis process in ARGV[i].
local function run_id(i)
    if not ARGV[i] or not string.find(ARGV[i], '^%x+$') then
        error('DSEM argument ' .. i .. ' is not a run id', 0)
    end
    return ARGV[i]
end
