-- names: one step of a search for the names that the shard knows: those with
-- literal limits or orders. Names that have only limits from variables are not
-- among them. It changes nothing.
--
-- KEYS[1] shard HASH
-- ARGV[1] session: string
-- ARGV[2] epoch: integer, echoed
-- ARGV[3] number of the command: integer, echoed
-- ARGV[4] cursor: integer, 0 begins a search; then that of the last reply
-- Reply: one bulk string, lines separated by a newline:
--   <session> <epoch> <number> <status>    (ok, layout)
--   cursor <next>                          0: this step was the last one
--   name <name>                            for each name, percent-encoded
--
-- If the status is layout the shard has another one, and no line follows. A
-- name may come twice. Run again it changes nothing. A step looks at some
-- hundred fields, whatever there are.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/shard.lua"
-- @include "include/entry_field.lua"
-- @include "include/text.lua"

-- fields of a step, in parts; it ends early when it has read so many bytes:
-- fields are long where many nodes have configurations of their own
local FIELDS, PART, BYTES = 256, 64, 100000

local reply = text_begin()
local cursor = ARGV[4]
if not string.find(cursor or '', '^%d+$') or #cursor > 19 then
    error('DSEM argument 4 is not an integer in range', 0)
end

-- One part of a step. Returns the next cursor, and the bytes that were read.
local function step(names)
    local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', PART)
    local fields, bytes = page[2], 0
    for i = 1, #fields, 2 do
        local name = string.match(fields[i], '^limit:(.+)$')
            or string.match(fields[i], '^order:(.+)$')
        -- an order that was set by hand may have any name
        if name and is_encoded(name) and not entry_is(fields[i], fields[i + 1])
        then
            names[name] = true
        end
        bytes = bytes + #fields[i] + #fields[i + 1]
    end
    return page[1], bytes
end

if not text_layout(reply, redis.call('HGET', KEYS[1], '.')) then
    return text_end(reply)
end

local names, left, read = {}, FIELDS / PART, 0
repeat
    local bytes
    cursor, bytes = step(names)
    left, read = left - 1, read + bytes
until cursor == '0' or left == 0 or read > BYTES

reply[2] = 'cursor ' .. cursor
for name in pairs(names) do reply[#reply + 1] = 'name ' .. name end
return text_end(reply)
