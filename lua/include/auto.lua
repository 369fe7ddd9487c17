-- What is kept of limit=auto, in the HASH of a name: its field "." has the
-- state of the rule, integers in the order of FIELDS; the fields "0" to "59"
-- the last changes, "<clock> <limit> <reason>" each. The HASH expires a lease
-- after the last sample; the limit of a literal name stays in the shard.

-- @include "include/auto_rule.lua"

-- changes kept, and ms in which several count as one
local AUTO_CHANGES, AUTO_TOGETHER_MS = 60, 1000

-- changes: how many there were; noted: clock of the last; min, max: the bounds
local AUTO_FIELDS = { 'found', 'reason', 'floor', 'latency', 'min', 'max',
    'changes', 'noted', 'normal', 'mode', 'base', 'before', 'changed',
    'confirmed', 'rises', 'ceiling', 'blamed', 'count', 'sum', 'errors',
    'waited', 'span', 'peak', 'paced', 'paced_span', 'sessions', 'settle', 'opened',
    'top', 'top_latency', 'suspect' }

-- The state, from its text; nil: there is none.
local function auto_parse(text)
    local s, n = {}, 0
    for word in string.gmatch(text or '', '%d+') do
        n = n + 1
        if AUTO_FIELDS[n] then s[AUTO_FIELDS[n]] = tonumber(word) end
    end
    return n == #AUTO_FIELDS and s or nil
end

local function auto_text(s)
    local words = {}
    for i, field in ipairs(AUTO_FIELDS) do
        words[i] = string.format('%.0f', s[field])
    end
    return table.concat(words, ' ')
end

-- Writes the state, and a change of limit or reason.
local function auto_write(key, s, changed, now, lease)
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
    redis.call('PEXPIRE', key, math.max(lease, 3 * auto_pace(s)))
end
