-- The queue of a semaphore: a ZSET of tickets, "session epoch ticket weight",
-- with a key followed by " key", by place. Its first member is a marker: a
-- queue without it was lost.
--
-- A ticket that cannot be served now is parked: its session is silent or has
-- not declared, or a lowered limit is below its weight. Its place goes up by
-- PARKED, behind all others, so that it is stepped over once and not by every
-- call. The fields "parked:<session>:<n>" of the semaphore list the parked
-- tickets of a session; its next sync brings them back to their places. A list
-- is only a hint: its tickets may have left the queue meanwhile.

local MARKER = 'queue'

-- The distance of two priority classes in places, above every sequence number,
-- and that of parked tickets, above all classes.
local CLASS, PARKED = 10000000000000, 1000000000000000

-- Tickets in one list.
local LIST_LENGTH = 100

-- A command on the queue; nil: its key has the wrong type. Any other error
-- concerns more than this semaphore, and ends the script.
local function queue_call(...)
    local reply = redis.pcall(...)
    if type(reply) ~= 'table' or not reply.err then return reply end
    if string.find(reply.err, '^WRONGTYPE') then return nil end
    return redis.call(...)
end

local function queue_class(place)
    return math.floor(place / CLASS)
end

-- Scores of these members; a false one: not in the queue. nil: the key has the
-- wrong type.
local function queue_scores(sem, members)
    local scores = queue_call('ZMSCORE', sem.queue, unpack(members))
    if not scores then return nil end
    for i = 1, #members do
        scores[i] = scores[i] and tonumber(scores[i])
    end
    return scores
end

-- The place of a ticket that goes behind all others of its class.
local function queue_next_place(sem, class)
    -- R7: queue order
    sem.seq = sem.seq + 1
    return class * CLASS + sem.seq
end

-- Adds a ticket at its place, when the queue is written.
local function queue_add(sem, member, place)
    sem.added[#sem.added + 1] = string.format('%.0f', place)
    sem.added[#sem.added + 1] = member
    sem.tail = math.max(sem.tail, place)
end

-- Stores the lists of the tickets that this call has parked.
local function queue_list(sem, session, account)
    local list = sem.lists[session]
    if not list then return end
    for first = 1, #list, LIST_LENGTH do
        account.chunks = account.chunks + 1
        sem.set[#sem.set + 1] = 'parked:' .. session .. ':' .. account.chunks
        sem.set[#sem.set + 1] = table.concat(list, ',', first,
            math.min(first + LIST_LENGTH - 1, #list))
    end
end

-- Takes the last list of a session away; returns its members of the queue.
local function queue_unlist(sem, view, session, account)
    local field = 'parked:' .. session .. ':' .. account.chunks
    local list, members = redis.call('HGET', sem.key, field), {}
    for text in string.gmatch(list or '', '[^,]+') do
        members[#members + 1] = session .. ' ' .. text
    end
    account.chunks = account.chunks - 1
    sem.gone[#sem.gone + 1] = field
    view.steps = view.steps - 1 - #members
    return members
end

-- Writes the queue. Returns a status: broken if its key has the wrong type,
-- resync if it was lost although tickets wait.
local function queue_write(sem, view)
    if sem.waiting == 0 then
        if sem.had_queue then redis.call('UNLINK', sem.queue) end
        return STATUS.ok
    end
    if #sem.removed > 0 then
        local removed = queue_call('ZREM', sem.queue, unpack(sem.removed))
        if not removed then return STATUS.broken end
    end
    if #sem.moved > 0 then
        redis.call('ZADD', sem.queue, 'XX', unpack(sem.moved))
    end
    if #sem.added == 0 then return STATUS.ok end
    local added = queue_call('ZADD', sem.queue, '-inf', MARKER,
        unpack(sem.added))
    if not added then return STATUS.broken end
    local lost = added > #sem.added / 2 and sem.waiting > #sem.added / 2
    if not lost or view.recovering then return STATUS.ok end
    redis.call('UNLINK', sem.queue)
    return STATUS.resync
end
