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

-- The integers that a pattern captures in ARGV[i], or in a part of it.
local function integers(i, pattern, part)
    local list = { string.match(part or ARGV[i] or '', pattern) }
    for n, text in ipairs(list) do
        list[n] = tonumber(text)
        if list[n] > 2^53 then list = {} break end
    end
    if #list == 0 then
        error('DSEM argument ' .. i .. ' is not a list of integers in range', 0)
    end
    return list
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

-- Whether this may be the encoded name of a semaphore.
-- R14: encoded name
local function is_encoded(text)
    return #text <= 200 and string.find(text, '^[%w._:%%~-]+$')
end

-- The encoded name of a semaphore in ARGV[i].
local function encoded_name(i)
    if not is_encoded(ARGV[i] or '') then
        error('DSEM argument ' .. i .. ' is not an encoded name', 0)
    end
    return ARGV[i]
end
