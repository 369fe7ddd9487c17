-- Reads what is kept of limit=auto, for a display. The history is passed on as
-- it is stored: one call reads many.

-- @include "include/auto_state.lua"

-- the time of the last sample, or somewhat before it: field 25, "paced"
local AUTO_LAST = '^' .. string.rep('%S+ ', 24) .. '(%d+) '

-- The lines of limit=auto, see inspect.lua, each with a newline before it;
-- empty: there is no state, it is none of ours, or of before a long pause.
local function auto_lines(key, clock)
    local values = redis.pcall('HMGET', key, '.', 'history')
    local found, reason, floor, latency, min, max = string.match(
        values[1] or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ')
    local last = string.match(values[1] or '', AUTO_LAST)
    if not found or clock - (last or clock) > AUTO_PAUSE_MS then return '' end
    local history = values[2] or ''
    if #history > AUTO_HISTORY_BYTES or string.find(history, '\n', 1, true)
    then
        history = ''
    end
    return string.format('\nauto %s %s %s %s %s %s\nhistory %.0f%s', min, max,
        found, reason, floor, latency, clock, history)
end
