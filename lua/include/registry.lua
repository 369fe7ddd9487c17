-- The registry: the live sessions with epoch, declared epoch and lease. A
-- session is a member of the sessions ZSET (score: end of its lease) exactly
-- while its field in the epochs HASH is "epoch declared lease". A field
-- "bye until" bars a session that bye has removed, until that clock time.

-- Reads a session. Returns epoch, declared epoch and lease in ms if it is
-- registered; nil and the end of the bar if it is barred; nil otherwise.
local function registry_read(epochs, session)
    local entry = redis.call('HGET', epochs, session)
    if not entry then return nil end
    local epoch, declared, lease = string.match(entry, '^(%d+) (%d+) (%d+)$')
    if epoch then
        return tonumber(epoch), tonumber(declared), tonumber(lease)
    end
    return nil, tonumber(string.match(entry, '^bye (%d+)$'))
end

local function registry_write(epochs, session, epoch, declared, lease)
    redis.call('HSET', epochs, session,
        string.format('%d %d %d', epoch, declared, lease))
end

-- Counts one more session, or older epoch of a session, whose accounts are
-- void. A semaphore whose "seen" is behind this counter has accounts to check.
local function registry_count_ended(meta)
    return redis.call('HINCRBY', meta, 'ended', 1)
end

-- The heartbeat interval of a lease, both in ms.
local function heartbeat(lease)
    return math.min(math.floor(lease / 5), 1000)
end
