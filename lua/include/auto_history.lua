-- Reads what is kept of limit=auto, for a display.

-- @include "include/auto_state.lua"

-- The state, and a list of { clock, limit, reason }, the oldest first; nil:
-- there is none, or it is none of ours.
local function auto_history(key)
    local fields = redis.pcall('HGETALL', key)
    if fields.err or #fields == 0 then return nil end
    local values, list = {}, {}
    for i = 1, #fields, 2 do values[fields[i]] = fields[i + 1] end
    local s = auto_parse(values['.'])
    if not s then return nil end
    for n = math.max(s.changes - AUTO_CHANGES, 0), s.changes - 1 do
        local clock, limit, reason = string.match(
            values[string.format('%d', n % AUTO_CHANGES)] or '',
            '^(%d+) (%d+) (%d)$')
        if clock then
            list[#list + 1] = { tonumber(clock), tonumber(limit),
                tonumber(reason) }
        end
    end
    return s, list
end
