-- Names in ARGV, see arguments.lua.

-- The session name in ARGV[i]. The colon distinguishes the accounts of a
-- semaphore from its other fields; a blank ends the name in a queue member.
local function session_name(i)
    local name = ARGV[i]
    if not name or not string.find(name, '^[%w._-]+:%d+:%x+$') then
        error('DSEM argument ' .. i .. ' is not a session', 0)
    end
    return name
end

-- Whether this may be the encoded name of a semaphore.
-- R14: encoded name
local function is_encoded(text)
    return #text <= 200 and string.find(text, '^[%w._:%%~-]+$')
end
