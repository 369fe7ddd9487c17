-- Lists of integers in one argument, see arguments.lua.

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
