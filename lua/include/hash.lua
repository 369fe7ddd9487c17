-- Reads the fields of a HASH that cache does not have yet, in one command.
-- parse gives what the cache gets for the text of a field, which may be false.
local function hash_load(key, names, cache, parse)
    local fields, asked = {}, {}
    for _, name in ipairs(names) do
        if cache[name] == nil and not asked[name] then
            asked[name] = true
            fields[#fields + 1] = name
        end
    end
    if #fields == 0 then return end
    local found = redis.call('HMGET', key, unpack(fields))
    for i, name in ipairs(fields) do cache[name] = parse(found[i]) end
end
