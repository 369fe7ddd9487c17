-- Fair shares: the places of tickets that have a key, as start tags of
-- start-time fair queueing. A ticket is queued at class * CLASS + S, with
--   S = max(V of its class, F of its key), then F = S + its increment
-- V: start tag of the last ticket granted; the increment: permit time that the
-- ticket is expected to take, divided by the shares of its key. FIFO inside a
-- key, as F is above S.
--
-- The fair ZSET has F by "<class> <key>", at class * CLASS + F, and a half more
-- if the key has a credit, of tickets that were cancelled, for its next ones:
-- at "!<class> <key>". Its marker, ".", shows that it was not lost. V by class
-- ends the head of the semaphore while tickets with keys wait, " <class>:<V>
-- ...". Without these, or without the marker, tags begin anew, behind all
-- tickets that wait.
--
-- A key whose F is not above V is as good as a new one. If there are many more
-- keys than tickets those of the lowest F are removed, and where that is above
-- V, as with a new key for each request, V advances to it: so the set is
-- bounded by what waits, and nothing waits for ever behind new keys.
--
-- V also advances by one with each ticket queued at V: ties are FIFO. The
-- sequence number of the semaphore follows the tags, so that a ticket without
-- key goes behind all tickets of its class.

-- Scores of the marker and, less the credit, of credits: below all classes.
local FAIR_MARKER, FAIR_CREDIT = '-inf', -2000000000000000

-- The greatest increment. A unit is 1/8 us of one permit of the limit, at which
-- V takes a week to half of CLASS while the queue is never empty. From there on
-- a unit is the longer the nearer V is to CLASS, which takes months.
local FAIR_INCREMENT = 1000000000

-- Tickets of the queue, and parked ones, that one acquire reads where its
-- key has a credit, or a cancel whose limit is unknown; one call reads twice as
-- many. And those that any other cancel reads.
local FAIR_LOOKS, FAIR_NEAR = 256, 32

-- In the place of a key: all new ones.
local FAIR_NEW = ' *'

-- The greatest cost, us: of the largest limit, more than increments have.
local FAIR_COST = 1e18

-- The cost and the key of a ticket in ARGV[i], checked; limit: that at which it
-- was queued, where that is stated.
local function fair_argument(i, ticket, cost, key, limit)
    ticket.cost, ticket.key = tonumber(cost), key
    ticket.limit = tonumber(limit or 0)
    if not ticket.cost or ticket.cost < 1 or ticket.cost > FAIR_COST
        or ticket.limit > 2^53 or not is_encoded(key)
    then
        error('DSEM argument ' .. i .. ' is not a ticket with a key', 0)
    end
end

-- The place of a ticket, which may be parked, from its score.
local function fair_place(score)
    return score > PARKED / 2 and score - PARKED or score
end

-- What a ticket with this tag adds to that of its key; cost: us of permit time.
local function fair_increment(cost, limit, tag)
    local increment = math.min(cost * 8 / math.max(limit, 1), FAIR_INCREMENT)
    if tag > CLASS / 2 then
        increment = increment * (2 - tag / (CLASS / 2))
    end
    return math.max(math.floor(increment), 1)
end

-- The increment divided by parts, or by least where these are fewer.
local function fair_step(increment, parts, least)
    return math.max(math.floor(increment / math.max(parts, least)), 1)
end

-- F and credit of a key, from their scores.
local function fair_read(fair, name, F, credit)
    if not F then return end
    local class = tonumber(string.match(name, '^%S+'))
    fair.F[name] = math.floor(F) - class * CLASS
    if credit then fair.credit[name] = FAIR_CREDIT - credit end
end

-- The tags of a semaphore, sem.fair, from its head and from the ZSET, with the
-- keys of these tickets. Returns false if it has the wrong type.
local function fair_load(sem, view, key, tickets)
    local fields, seen = { '.' }, {}
    local function add(name)
        if seen[name] then return end
        seen[name] = true
        fields[#fields + 1], fields[#fields + 2] = name, '!' .. name
    end
    for _, ticket in ipairs(tickets) do
        if ticket.key then
            add(ticket.class .. ' ' .. ticket.key)
            add(ticket.class .. FAIR_NEW)
        end
    end
    local fair = { key = key, V = {}, F = {}, credit = {}, changed = {},
        settled = {}, looks = 2 * FAIR_LOOKS }
    sem.fair = fair
    -- void tickets may have left tags: those of a worker that has reconnected
    if sem.fair_text == '' or sem.waiting == 0 then
        -- nothing waits: tags as of a new semaphore, they do not grow for ever
        if sem.waiting == 0 and sem.seq > CLASS / 2 then
            sem.seq = view_clock(view)
        end
        return true
    end
    local scores = queue_call('ZMSCORE', key, unpack(fields))
    if not scores then return false end
    fair.begun = scores[1]
    if not fair.begun then return true end
    for class, V in string.gmatch(sem.fair_text, ' (%-?%d):(%d+)') do
        fair.V[tonumber(class)] = tonumber(V)
    end
    for i = 2, #fields, 2 do
        fair_read(fair, fields[i], scores[i], scores[i + 1])
    end
    return true
end

-- V of a class. Where it is unknown the sequence number is used: it is at least
-- the tag of each of its tickets.
local function fair_virtual(sem, class)
    return sem.fair.V[class] or math.min(sem.seq + 1, CLASS - 1)
end

-- The tag that a ticket of this key would have; a new key queues with others.
-- R8: start tag
local function fair_tag(sem, class, key)
    local F = sem.fair.F[class .. ' ' .. key] or sem.fair.F[class .. FAIR_NEW]
    return math.min(math.max(fair_virtual(sem, class), F or 0), CLASS - 1)
end

-- Sets F of a key.
local function fair_set(fair, name, F)
    fair.F[name], fair.changed[name] = F, true
end

-- The last tag from this one to F at which a ticket of the key waits, and true;
-- that of the last ticket that was read, if there are too many; or nil.
-- parked: 0, or PARKED for those that are parked.
local function fair_find(sem, class, key, from, F, most, parked)
    local lowest = class * CLASS + parked
    local list = queue_call('ZRANGE', sem.queue, string.format('(%.0f',
        lowest + F), string.format('%.0f', lowest + from), 'BYSCORE', 'REV',
        'LIMIT', 0, most) or {}
    sem.fair.looks = sem.fair.looks - #list
    -- scores of all would take Redis longer than the rest
    local ending, last, waits = ' ' .. key, #list == most and list[most], nil
    for i = 1, #list do
        if string.find(list[i], ending, -#ending, true)
            and string.match(list[i], '^%S+ %d+ %d+ %d+ (%S+)$') == key
            and sem.scores[list[i]] ~= false
        then
            last, waits = list[i], true
            break
        end
    end
    if not last then return nil end
    return redis.call('ZSCORE', sem.queue, last) - lowest, waits
end

-- Tickets of the key have left the queue: where none of it waits at the tags
-- that it has paid for them, F goes back. Looks at some tickets of the queue.
local function fair_settle(sem, ticket, limit)
    local fair, name = sem.fair, ticket.class .. ' ' .. ticket.key
    local credit, most = fair.credit[name], math.min(FAIR_LOOKS, fair.looks)
    if not credit or fair.settled[name] or most <= 0 then return end
    fair.settled[name] = true
    local F = fair.F[name]
    local back = F - credit
    for parked = 0, sem.parked > 0 and PARKED or 0, PARKED do
        local tag, waits = fair_find(sem, ticket.class, ticket.key, F - credit,
            F, most, parked)
        if tag then
            back = math.max(back, tag
                + (waits and fair_increment(ticket.cost, limit, tag) or 1))
        end
    end
    if back < F then
        fair.credit[name] = credit - (F - back)
        fair_set(fair, name, back)
    end
end

-- A ticket is queued at this tag: its key pays for it.
local function fair_charge(sem, ticket, tag, limit)
    local fair, name = sem.fair, ticket.class .. ' ' .. ticket.key
    local increment = fair_increment(ticket.cost, limit, tag)
    if not fair.F[name] then
        -- one more: no tie with a key that takes as many turns
        fair_set(fair, ticket.class .. FAIR_NEW, math.min(tag + 1 + fair_step(
            increment, sem.waiting / math.max(limit / 4, 4), 4), CLASS - 1))
    end
    local credit = math.min(fair.credit[name] or 0, increment - 1)
    if fair.credit[name] then
        fair.credit[name] = fair.credit[name] - credit
    end
    local V = fair_virtual(sem, ticket.class)
    fair.V[ticket.class] = math.min(tag == V
        and V + fair_step(increment, sem.waiting, 16) or V, CLASS - 1)
    fair_set(fair, name, math.min(tag + increment - credit, CLASS - 1))
    sem.seq = math.max(sem.seq, tag)
    fair.queued = ticket.class
end

-- A ticket is granted before the first one that waits, which is too heavy for
-- the free permits: its key pays, too.
local function fair_pass(sem, ticket, limit)
    local tag = fair_tag(sem, ticket.class, ticket.key)
    fair_charge(sem, ticket, tag, limit)
    local fair = sem.fair
    fair.V[ticket.class] = math.max(fair.V[ticket.class], tag)
end

-- Adds by to the places of the tickets of a key, the last ones first, as far as
-- fair.looks allows. parked: 0, or PARKED for those that are parked, which come
-- back to their places later: behind the tail, positions would be wrong.
local function fair_move(sem, class, key, F, by, parked)
    local lowest, moved = class * CLASS + parked, {}
    local list = queue_call('ZRANGE', sem.queue, string.format('(%.0f',
        lowest + F), string.format('%.0f', lowest), 'BYSCORE', 'REV', 'LIMIT',
        0, sem.fair.looks, 'WITHSCORES') or {}
    sem.fair.looks = sem.fair.looks - #list / 2
    for i = 1, #list, 2 do
        local of = string.match(list[i], '^%S+ %d+ %d+ %d+ (%S+)$')
        if of == key and sem.scores[list[i]] ~= false then
            local tag = math.min(list[i + 1] - lowest + by, CLASS - 1)
            moved[#moved + 1] = string.format('%.0f', lowest + tag)
            moved[#moved + 1] = list[i]
            sem.tail = math.max(sem.tail, class * CLASS + tag)
            sem.seq = math.max(sem.seq, tag)
        end
    end
    if #moved > 0 then redis.call('ZADD', sem.queue, unpack(moved)) end
end

-- Requests of a key run longer than it has paid for: it pays the rest, and its
-- tickets that wait have to wait for that. At once: the walk that follows has
-- to see them. A key that uses less than its share is behind V, and stays so.
local function fair_owe(sem, ticket, limit)
    local fair, name = sem.fair, ticket.class .. ' ' .. ticket.key
    if sem.waiting == 0 or not fair.begun then return end
    local F = fair.F[name] or fair_virtual(sem, ticket.class)
    local by = fair_increment(ticket.cost, limit, F)
    for parked = 0, sem.parked > 0 and PARKED or 0, PARKED do
        if fair.looks > 0 then
            fair_move(sem, ticket.class, ticket.key, F, by, parked)
        end
    end
    fair_set(fair, name, math.min(F + by, CLASS - 1))
end

-- A ticket waits at its place, after a reconnect. lowers: V may go back to it.
local function fair_restore(sem, ticket, limit, lowers)
    local fair, name = sem.fair, ticket.class .. ' ' .. ticket.key
    local tag = ticket.place - ticket.class * CLASS
    local F = math.min(tag + fair_increment(ticket.cost, limit, tag), CLASS - 1)
    if F > (fair.F[name] or 0) then fair_set(fair, name, F) end
    local V = fair.V[ticket.class]
    if lowers then fair.V[ticket.class] = math.min(V or tag, tag) end
end

-- Tickets were granted: V advances.
local function fair_served(sem, places)
    local fair = sem.fair
    for _, place in ipairs(places) do
        local class = queue_class(place)
        local tag = place - class * CLASS
        if fair.V[class] and fair.V[class] < tag then fair.V[class] = tag end
    end
end

-- Whether a ticket of the key waits at a tag from this one to F, or may, as it
-- is not written yet; nil: unknown, there are more than "most" tickets. first:
-- 0, or PARKED: only those that are parked.
local function fair_waits(sem, class, key, from, F, most, first)
    if #sem.added > 0 then return true end
    local fair, ending = sem.fair, ' ' .. key
    for parked = first, sem.parked > 0 and PARKED or 0, PARKED do
        local lowest = class * CLASS + parked
        most = math.min(most, fair.looks)
        if most <= 0 then return nil end
        local list = redis.call('ZRANGE', sem.queue, string.format('(%.0f',
            lowest + F), string.format('%.0f', lowest + from), 'BYSCORE', 'REV',
            'LIMIT', 0, most)
        fair.looks = fair.looks - #list
        for i = 1, #list do
            if string.find(list[i], ending, -#ending, true)
                and sem.scores[list[i]] ~= false
            then
                return true
            end
        end
        if #list == most then return nil end
    end
    return false
end

-- A ticket has left the queue without a permit: its key need not pay for it.
-- What it has paid depends on the limit at which it was queued, which may be
-- another one now. Only the last one of a key gives its tag back, as later ones
-- stay where they are; others leave a credit, see fair_settle(). By its cost it
-- is the last one, but others may fit where the limit is unknown, as after a
-- failover, or where later ones had a credit: so the key is searched behind it.
-- Where the limit is stated fewer are searched, as all tickets come here that
-- are cancelled: unless that finds that none waits, it leaves a credit, too.
local function fair_refund(sem, ticket, place, limit)
    local fair, class = sem.fair, queue_class(place)
    local name = class .. ' ' .. ticket.key
    local F, tag = fair.F[name], place - class * CLASS
    if not F or F <= fair_virtual(sem, class) then return end
    local stated = ticket.limit > 0
    local increment = fair_increment(ticket.cost, stated and ticket.limit
        or limit, tag)
    local waits = F - increment ~= tag or fair_waits(sem, class, ticket.key,
        tag, F, stated and FAIR_NEAR or FAIR_LOOKS, 0)
    if waits ~= false then
        fair.credit[name] = math.min((fair.credit[name] or 0) + increment,
            F - fair_virtual(sem, class))
        fair.changed[name] = true
    else
        fair_set(fair, name, tag)
    end
end

-- The last ticket of a key was dropped. Where a later one is parked F stays:
-- the next one would pass that.
local function fair_return(sem, class, key, tag)
    local fair, name = sem.fair, class .. ' ' .. key
    if not fair.F[name] and fair.begun then
        local scores = redis.call('ZMSCORE', fair.key, name, '!' .. name)
        fair_read(fair, name, scores[1], scores[2])
    end
    local F = fair.F[name]
    if F and F > tag
        and fair_waits(sem, class, key, tag, F, FAIR_LOOKS, PARKED) == false
    then
        fair_set(fair, name, tag)
    end
end

-- Scores and members that have changed, and members that are gone.
local function fair_changes(fair)
    local set, gone = {}, {}
    for name in pairs(fair.changed) do
        local class = tonumber(string.match(name, '^%S+'))
        local score, credit = class * CLASS + fair.F[name], fair.credit[name]
        if credit and credit > 0 then
            score = score + 0.5
            set[#set + 1] = string.format('%.0f', FAIR_CREDIT - credit)
            set[#set + 1] = '!' .. name
        elseif credit then
            gone[#gone + 1] = '!' .. name
        end
        set[#set + 1] = string.format('%.1f', score)
        set[#set + 1] = name
    end
    return set, gone
end

-- Writes the tags, before the head of the semaphore, and after the queue.
local function fair_write(sem)
    local fair = sem.fair
    if sem.waiting == 0 then
        if sem.fair_text ~= '' then redis.call('UNLINK', fair.key) end
        return
    end
    local set, gone = fair_changes(fair)
    if not fair.begun then
        sem.fair_text = ''
        if #set == 0 then return end
        redis.call('UNLINK', fair.key)
        set[#set + 1], set[#set + 2] = FAIR_MARKER, '.'
    end
    if #set > 0 then redis.call('ZADD', fair.key, unpack(set)) end
    if not fair.begun then redis.call('PEXPIRE', fair.key, EXPIRE_MS) end
    if #gone > 0 then redis.call('ZREM', fair.key, unpack(gone)) end
    if fair.queued then
        fair.V[fair.queued] = fair_trim(fair.key, fair.queued,
            fair.V[fair.queued], sem.waiting)
    end
    local text = {}
    for class = -8, 7 do
        local V = fair.V[class]
        if V then
            text[#text + 1] = string.format(' %d:%.0f', class, V)
        end
    end
    sem.fair_text = table.concat(text)
end

-- What scripts call. A command without keys has none of it, as each function
-- that is defined costs the call.
fairs = {
    argument = fair_argument, place = fair_place, load = fair_load,
    tag = fair_tag, settle = fair_settle, charge = fair_charge,
    pass = fair_pass, owe = fair_owe, restore = fair_restore,
    served = fair_served, refund = fair_refund, dropped = fair_return,
    write = fair_write
}
