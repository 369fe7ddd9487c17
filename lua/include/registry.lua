-- Changes of the registry: sessions that end, and bars. Each ended session,
-- and each session with an ended epoch, is logged by name in the shard: a
-- semaphore looks only at those that ended since it last did.

-- Accounts of the session, or of its epochs before the declared one, are void.
local function registry_log_ended(shard, session)
    shard.ended = shard.ended + 1
    shard.logged[#shard.logged + 1] = session
end

-- Bars a session until the clock time ends.
local function registry_bar(shard, session, ends)
    if shard.first_bar == 0 then shard.first_bar = shard.last_bar + 1 end
    shard.last_bar = shard.last_bar + 1
    redis.call('HSET', shard.key, session, string.format('bye %.0f', ends),
        string.format('bar:%.0f', shard.last_bar), session)
end

-- Deletes expired bars; reads this many at most, the first ones. Where there
-- are more, those that last longer than the shortest lease become the last:
-- a bar of an hour must not keep all later bars.
local function registry_prune_bars(shard, most)
    if shard.first_bar == 0 then return end
    local last = math.min(shard.first_bar + most - 1, shard.last_bar)
    local all = last == shard.last_bar
    local fields = {}
    for n = shard.first_bar, last do
        fields[#fields + 1] = string.format('bar:%.0f', n)
    end
    local barred = redis.call('HMGET', shard.key, unpack(fields))
    local names = {}
    for i = 1, #fields do names[i] = barred[i] or '' end
    local entries = redis.call('HMGET', shard.key, unpack(names))
    local gone, kept = { 'HDEL', shard.key }, { 'HSET', shard.key }
    local first
    for i, field in ipairs(fields) do
        local _, ends = entry_parse(entries[i])
        if ends and ends > shard.clock then
            if all or ends <= shard.clock + shard.lease then
                first = first or shard.first_bar + i - 1
            else
                gone[#gone + 1] = field
                shard.last_bar = shard.last_bar + 1
                kept[#kept + 1] = string.format('bar:%.0f', shard.last_bar)
                kept[#kept + 1] = names[i]
            end
        elseif barred[i] then
            gone[#gone + 1] = field
            if ends then gone[#gone + 1] = names[i] end
        end
    end
    shard.first_bar = first or all and 0 or last + 1
    if #gone > 2 then redis.call(unpack(gone)) end
    if #kept > 2 then redis.call(unpack(kept)) end
end
