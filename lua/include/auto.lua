-- Writes what is kept of limit=auto.

-- @include "include/expiry.lua"
-- @include "include/auto_state.lua"
-- @include "include/auto_rule.lua"

-- changes kept
local AUTO_CHANGES = 60
-- ms in which several changes count as one
local AUTO_TOGETHER_MS = 1000

local function auto_text(s)
    local words = {}
    for i, field in ipairs(AUTO_FIELDS) do
        words[i] = string.format('%.0f', s[field])
    end
    return table.concat(words, ' ')
end

-- The history with a change of the limit found or its reason; text: as it is
-- stored.
local function auto_changed(s, text, now)
    if s.changes == 0 or not text or #text > AUTO_HISTORY_BYTES then
        text, s.changes = '', 0
    end
    -- changes in quick succession: the last of them
    if s.changes > 0 and now - s.noted < AUTO_TOGETHER_MS then
        text = string.match(text, '^(.*) %d+ %d+ %d+$') or ''
    else
        s.changes, s.noted = s.changes + 1, now
    end
    if s.changes > AUTO_CHANGES then
        s.changes = AUTO_CHANGES
        text = string.match(text, '^ %d+ %d+ %d+( .*)$') or ''
    end
    return string.format('%s %.0f %.0f %d', text, now, auto_kept(s), s.reason)
end

-- Writes the state, and a change of the limit found or its reason.
local function auto_write(key, s, changed, now)
    local set = { 'HSET', key }
    if s.anew then redis.call('UNLINK', key) end
    if changed then
        set[3] = 'history'
        set[4] = auto_changed(s, redis.call('HGET', key, set[3]), now)
    end
    if s.usual_of > 0 then
        set[#set + 1], set[#set + 2] = 'usual',
            string.format('%.3f %d', s.usual, s.usual_of)
    end
    if s.permits ~= s.sum then
        set[#set + 1], set[#set + 2] = 'permits',
            string.format('%.0f %.0f', s.opened, s.permits)
    end
    set[#set + 1], set[#set + 2] = '.', auto_text(s)
    redis.call(unpack(set))
    redis.call('PEXPIRE', key, EXPIRE_MS)
end
