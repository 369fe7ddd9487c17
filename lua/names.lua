-- names: one step of a search for what the shard knows: names that have literal
-- limits or orders, and nodes that have live sessions. Names that have only
-- limits from variables are not among them. It changes nothing.
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
--   node <node> <sessions> <ms>            for each node: its sessions in this
--     step, time since the last heartbeat of one of them
--
-- If the status is layout the shard has another one, and no line follows. A
-- name or a session may come twice. Run again it changes nothing. A step reads
-- some hundred fields, whatever there are.

-- @include "include/status.lua"
-- @include "include/arguments.lua"
-- @include "include/shard.lua"
-- @include "include/entry_field.lua"
-- @include "include/text.lua"

-- fields of a step, in parts; it ends early when it has read BYTES bytes:
-- fields are long where many nodes have configurations of their own
local FIELDS, PART, BYTES = 256, 64, 100000

local reply = text_begin()
local cursor = ARGV[4]
if not string.find(cursor or '', '^%d+$') or #cursor > 19 then
    error('DSEM argument 4 is not an integer in range', 0)
end

-- Counts a live session of a node. Most fields are such: entries are not parsed
-- as elsewhere, which takes three times as long.
local function count(nodes, node, lease, left)
    if left <= 0 then return end
    local found, quiet = nodes[node], math.max(lease - left, 0)
    if not found then
        nodes[node] = { sessions = 1, quiet = quiet }
    else
        found.sessions = found.sessions + 1
        if quiet < found.quiet then found.quiet = quiet end
    end
end

-- One part of a step. Returns the next cursor, and the bytes that were read.
local function step(names, nodes, clock)
    local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', PART)
    local fields, bytes = page[2], 0
    for i = 1, #fields, 2 do
        local field, text = fields[i], fields[i + 1]
        local node = string.match(field, '^([%w._-]+):%d+:%x+$')
        local lease, ends = string.match(node and text or '',
            '^%d+ %d+ (%d+) (%d+) %x+ %S+$')
        if lease then
            count(nodes, node, lease, ends - clock)
        else
            local name = string.match(field, '^limit:(.+)$')
                or string.match(field, '^order:(.+)$')
            -- an order that was set by hand may have any name
            if name and is_encoded(name) and not entry_is(field, text) then
                names[name] = true
            end
        end
        bytes = bytes + #fields[i] + #fields[i + 1]
    end
    return page[1], bytes
end

local head = redis.call('HGET', KEYS[1], '.')
if not text_layout(reply, head) then return text_end(reply) end

local shard = shard_parse(KEYS[1], head)
local names, nodes, left, read = {}, {}, FIELDS / PART, 0
repeat
    local bytes
    cursor, bytes = step(names, nodes, shard and shard.clock or 0)
    left, read = left - 1, read + bytes
until cursor == '0' or left == 0 or read > BYTES

reply[2] = 'cursor ' .. cursor
for name in pairs(names) do reply[#reply + 1] = 'name ' .. name end
for node, found in pairs(nodes) do
    reply[#reply + 1] = string.format('node %s %d %.0f', node, found.sessions,
        found.quiet)
end
return text_end(reply)
