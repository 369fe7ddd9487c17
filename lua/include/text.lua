-- Replies that are one text, for scripts that only read: lines separated by a
-- newline, of words separated by a blank. No word holds one of these, because
-- all come from arguments that were checked, or are matched when they are read.

-- The first line has what all replies begin with. ARGV[1] to ARGV[3] are
-- session, epoch and number.
local function text_begin()
    return { string.format('%s %.0f %.0f %d', session_name(1), integer(2),
        integer(3), STATUS.ok) }
end

-- Whether the head of the shard, false: there is none, may be read; if not,
-- that is the status of the reply.
local function text_layout(lines, head)
    if not head or shard_parse('', head) then return true end
    lines[1] = string.gsub(lines[1], '%d+$', STATUS.layout)
    return false
end

local function text_end(lines)
    return table.concat(lines, '\n')
end
