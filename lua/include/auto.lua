-- Writes what is kept of limit=auto.

-- @include "include/auto_state.lua"
-- @include "include/auto_rule.lua"

-- ms after the last sample
local AUTO_EXPIRE_MS = 3600000
-- ms in which several changes count as one
local AUTO_TOGETHER_MS = 1000

local function auto_text(s)
    local words = {}
    for i, field in ipairs(AUTO_FIELDS) do
        words[i] = string.format('%.0f', s[field])
    end
    return table.concat(words, ' ')
end

-- Writes the state, and a change of limit or reason.
local function auto_write(key, s, changed, now)
    local set = { 'HSET', key }
    if changed then
        -- changes in quick succession: the last of them
        if s.changes == 0 or now - s.noted >= AUTO_TOGETHER_MS then
            s.changes, s.noted = s.changes + 1, now
        end
        set[3] = string.format('%d', (s.changes - 1) % AUTO_CHANGES)
        set[4] = string.format('%.0f %.0f %d', now, s.found, s.reason)
    end
    set[#set + 1], set[#set + 2] = '.', auto_text(s)
    redis.call(unpack(set))
    redis.call('PEXPIRE', key, AUTO_EXPIRE_MS)
end
