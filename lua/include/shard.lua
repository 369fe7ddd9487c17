-- The shard: one HASH with what all semaphores share, so that it is lost
-- together or not at all. Its field "." is the head, ten integers that most
-- commands read at once:
--   layout generation clock wall recover_until ended sessions first_bar
--   last_bar lease
-- lease: the shortest one of all registered sessions; 0: there is no session.
-- A session's field is its entry, "epoch declared lease end seal
-- configuration", or a bar, "bye until". Each message to the session begins
-- with the seal, which a client that only publishes does not know. The sessions
-- ZSET has the same sessions by the end of their leases. It is an index: when
-- its size is not the head's "sessions", it was lost, and all state counts as
-- lost.

-- The layout of keys and fields. A script that meets another one leaves it
-- alone. The generation, the clock and the wall clock stay the second to
-- fourth number in all layouts.
local LAYOUT = 3

-- The head, parsed; nil: there is none, or it has another layout. Commands
-- change the table, shard_write() stores it.
local function shard_parse(key, text)
    local layout, gen, clock, wall, recover_until, ended, sessions, first_bar,
        last_bar, lease = string.match(text or '',
            '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')
    if tonumber(layout) ~= LAYOUT then return nil end
    return {
        key = key, text = text, gen = tonumber(gen), clock = tonumber(clock),
        wall = tonumber(wall), recover_until = tonumber(recover_until),
        ended = tonumber(ended), sessions = tonumber(sessions),
        first_bar = tonumber(first_bar), last_bar = tonumber(last_bar),
        lease = tonumber(lease), logged = {}
    }
end

-- An entry, parsed; nil and the end of the bar if the session is barred; nil
-- if it is unknown.
local function entry_parse(text)
    local epoch, declared, lease, ends, seal, configuration =
        string.match(text or '', '^(%d+) (%d+) (%d+) (%d+) (%x+) (%S+)$')
    if not epoch then
        return nil, tonumber(string.match(text or '', '^bye (%d+)$'))
    end
    return {
        epoch = tonumber(epoch), declared = tonumber(declared),
        lease = tonumber(lease), ends = tonumber(ends), seal = seal,
        configuration = configuration
    }
end

-- Sends a message to a session. pcall: a lost message only delays, or is sent
-- again. Returns whether the user may publish.
local function entry_publish(key, session, entry, text)
    -- R13: keys and channels
    local sent = redis.pcall('PUBLISH', key .. ':c:' .. session,
        entry.seal .. ' ' .. text)
    return type(sent) == 'number'
end

-- The heartbeat interval of a lease, both in ms.
local function heartbeat(lease)
    -- R5: heartbeat
    return math.min(math.floor(lease / 5), 1000)
end

-- Whether a session with this end of its lease, which began with its last
-- heartbeat, has missed two by the stored clock. None was missed by a leap of
-- the clock, after which all have two again; it is read where a session would
-- be silent without it.
local function entry_silent(shard, ends, lease)
    -- R6: silent session
    local since = shard.clock - 2 * heartbeat(lease)
    if ends - lease >= since then return false end
    shard.leap = shard.leap
        or tonumber(redis.call('HGET', shard.key, 'leap')) or -math.huge
    return shard.leap < since
end
