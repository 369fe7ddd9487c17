-- Whether a field is that of a session. Where a node has the name of another
-- kind of field, its sessions look like those: "order:0:4f19776b143ae902".
local function entry_is(field, text)
    local entry, bar_end = entry_parse(text)
    return (entry or bar_end) and string.find(field, '^[%w._-]+:%d+:%x+$')
end
