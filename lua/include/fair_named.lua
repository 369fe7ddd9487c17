-- This reply names dropped tickets. It may be lost, and they are declared then:
-- KEYS[5] keeps the numbers that the last replies to the session have named, as
-- " !<epoch>;<ticket> <ticket> ...;<ticket> ...".

-- Replies to an account that may be on their way: NGX_HTTP_DSEM_MAX_INFLIGHT of
-- ngx_module/semaphore/ngx_http_dsem_dispatch.c. A lost one ends the epoch.
local REPLIES = 8
-- How long the key stays after the last reply: two of the longest registered
-- leases, and NAMED_MS at least. A session that has not declared within a
-- lease is removed, and its tickets are new ones then; a recovery may last
-- another lease. While Redis is unavailable no lease ends: after a longer
-- outage a ticket whose reply was lost is queued again. Not longer, as clients
-- may choose the names.
local NAMED_LEASES, NAMED_MS = 2, 60000
-- Fields that one call reads; those of a small hash are all read.
local STEP = 32

-- Deletes fields of sessions that have ended, in steps, while there are more
-- than two for each registered session. "scan" has the cursor of the next step;
-- it is added to what is set.
local function named_trim(key, view, set)
    if redis.call('HLEN', key) <= 2 * view.sessions then return end
    local page = redis.call('HSCAN', key, redis.call('HGET', key, 'scan')
        or '0', 'COUNT', STEP)
    local sessions, gone = {}, {}
    for i = 1, #page[2], 2 do sessions[#sessions + 1] = page[2][i] end
    if sessions[1] then
        local entries = redis.call('HMGET', view.key, unpack(sessions))
        for i, entry in ipairs(entries) do
            if not entry_parse(entry) then
                gone[#gone + 1] = sessions[i]
            end
        end
    end
    if gone[1] then redis.call('HDEL', key, unpack(gone)) end
    set[#set + 1], set[#set + 2] = 'scan', page[1]
end

local function named_add(key, view)
    local text = redis.pcall('HGET', key, call.session)
    -- a key of another type is left as it is
    if type(text) == 'table' then return end
    local _, epoch, list = dropped_read(text)
    local numbers = {}
    for number in pairs(call.dropped) do numbers[#numbers + 1] = number end
    list = (epoch == call.epoch and list or '') .. ';'
        .. table.concat(numbers, ' ')
    local _, replies = string.gsub(list, ';', '')
    if replies > REPLIES then list = string.match(list, '^;[^;]*(.*)') end
    local set = { call.session, string.format(' !%.0f%s', call.epoch, list) }
    named_trim(key, view, set)
    redis.call('HSET', key, unpack(set))
    local longest = leases_last(redis.call('HGET', view.key, 'leases'),
        view.entry.lease)
    redis.call('PEXPIRE', key, math.max(NAMED_LEASES * longest, NAMED_MS))
end

named_add(KEYS[5], view)
