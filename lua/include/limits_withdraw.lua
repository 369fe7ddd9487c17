-- Withdraws the limits of configurations without sessions, see limits.lua.

-- Bounds of a withdrawal by one call: a script blocks all other commands. The
-- fields of names are long where many nodes have configurations of their own.
local PARTS_AT_ONCE, BYTES_AT_ONCE = 32, 50000

-- Sessions that get the message "raised". One of them that has a ticket is
-- enough: its sync serves the tickets of all.
local RAISED_AT_ONCE = 64

-- @include "include/limits_auto.lua"

-- A name's fields with one configuration less; '': no other has this name.
local function limits_remove(text, limit, bounds, id)
    if limits_sign(limit) then
        return limits_auto_remove(text, limit, bounds, id)
    end
    local first, stop = limits_group(text, limit)
    return first and limits_take(text, first, stop, id) or text, bounds
end

-- Applies change(text, limit, bounds) to the fields of all names of one part;
-- it returns text and bounds. Returns the size of the fields in bytes.
local function limits_change(key, names, limits, change)
    if #names == 0 then return 0 end
    local fields = {}
    for i, name in ipairs(names) do
        fields[2 * i - 1], fields[2 * i] = 'limit:' .. name, 'bounds:' .. name
    end
    local texts = redis.call('HMGET', key, unpack(fields))
    local set, gone, size = { 'HSET', key }, { 'HDEL', key }, 0
    for i, limit in ipairs(limits) do
        local before = { texts[2 * i - 1] or '', texts[2 * i] or '' }
        local after = { change(before[1], limit, before[2]) }
        for j = 1, 2 do
            size = size + #before[j]
            local field, text = fields[2 * i - 2 + j], after[j]
            if text == '' then
                gone[#gone + 1] = field
            elseif text ~= before[j] then
                set[#set + 1], set[#set + 2] = field, text
            end
        end
    end
    if #set > 2 then redis.call(unpack(set)) end
    if #gone > 2 then redis.call(unpack(gone)) end
    return size
end

-- Withdraws the last part of a configuration; returns the size of its fields,
-- and whether a limit in force is higher now.
local function limits_withdraw_part(key, id, part)
    local field = 'names:' .. id .. '/' .. part
    local text = redis.call('HGET', key, field)
    local names, limits = {}, {}
    for name, limit in string.gmatch(text or '', '(%S+) (%S+)') do
        names[#names + 1], limits[#limits + 1] = name, limit
    end
    local raised = false
    local size = limits_change(key, names, limits, function(old, limit, bounds)
        local new, others = limits_remove(old, limit, bounds, id)
        local lowest = limits_lowest(new)
        raised = raised or lowest and lowest > limits_lowest(old)
        return new, others
    end)
    redis.call('HDEL', key, field)
    return size, raised
end

-- Withdraws configurations without sessions, the last part first; what is left
-- is for the next call. Where a limit is higher now, tickets that wait for it
-- can be served: the sessions get the message "raised".
local function limits_withdraw(key, sessions)
    local size, done, raised = 0, 0, false
    while done < PARTS_AT_ONCE and size < BYTES_AT_ONCE do
        local leaving = redis.call('HGET', key, 'leaving')
        if not leaving then break end
        local id, rest = string.match(leaving, '^(%S+) ?(.*)$')
        local config = limits_read(key, id)
        if config.sessions == 0 and config.stated > 0 then
            config.stated = config.stated - 1
            local bytes, higher = limits_withdraw_part(key, id, config.stated)
            size, raised = size + bytes, raised or higher
            limits_write(key, id, config)
        end
        done = done + 1
        if config.sessions == 0 and config.stated == 0 then
            redis.call('HDEL', key, 'config:' .. id)
        end
        if config.sessions > 0 or config.stated == 0 then
            if rest == '' then
                redis.call('HDEL', key, 'leaving')
            else
                redis.call('HSET', key, 'leaving', rest)
            end
        end
    end
    if raised then publish_fleet(key, sessions, RAISED_AT_ONCE, 'raised') end
end
