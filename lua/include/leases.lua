-- The leases of the registered sessions, which differ while workers of two
-- configurations run: the field "leases" of the shard, "lease sessions lease
-- sessions ...", the shortest lease first. The head has the shortest one.

-- Changes the numbers of sessions: by how many, by lease.
local function leases_change(shard, changes)
    local sessions, leases = changes, {}
    local text = redis.call('HGET', shard.key, 'leases') or ''
    for lease, n in string.gmatch(text, '(%d+) (%d+)') do
        lease = tonumber(lease)
        sessions[lease] = (sessions[lease] or 0) + n
    end
    for lease, n in pairs(sessions) do
        if n > 0 then leases[#leases + 1] = lease end
    end
    table.sort(leases)
    shard.lease = leases[1] or 0
    for i, lease in ipairs(leases) do
        leases[i] = string.format('%.0f %.0f', lease, sessions[lease])
    end
    redis.call('HSET', shard.key, 'leases', table.concat(leases, ' '))
end

-- A session has another lease than before; before nil: it is new.
local function leases_move(shard, before, lease)
    if before == lease then return end
    local changes = { [lease] = 1 }
    if before then changes[before] = -1 end
    leases_change(shard, changes)
end

-- The longest lease of the field, which is the last one; of the caller if that
-- is longer.
local function leases_last(text, lease)
    return math.max(tonumber(string.match(text or '', '(%d+) %d+$')) or 0,
        lease)
end

-- The longest registered lease that is no longer than most; 0: there is none.
local function leases_longest(shard, most)
    local longest = 0
    local text = redis.call('HGET', shard.key, 'leases') or ''
    for lease in string.gmatch(text, '(%d+) %d+') do
        if tonumber(lease) <= most then longest = tonumber(lease) end
    end
    return longest
end
