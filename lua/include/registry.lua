-- The registry: which sessions live, with epoch, declared epoch and lease.
-- A session is in the sessions ZSET (score: end of its lease) exactly while
-- its entry in the epochs HASH is "epoch declared lease"; an entry
-- "bye until" bars a session that has left, until the clock shows that.

-- The entry of a session: epoch, declared epoch, lease in ms; or nil when
-- it is not registered; or nil and the time until which it is barred.
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

-- Counts one more session, or older epoch of one, whose accounts are void.
-- Every semaphore compares this with what it has seen.
local function registry_ended(meta)
    return redis.call('HINCRBY', meta, 'ended', 1)
end

-- The heartbeat that goes with a lease, both in ms.
local function heartbeat(lease)
    return math.min(math.floor(lease / 5), 1000)
end
