-- This reply names dropped tickets. It may be lost, and they are declared then:
-- "named:<session>" keeps their numbers, as those that no reply has named, with
-- the epoch. Several replies may be on their way. The field stays when the
-- account is empty, until the session has ended.

-- Bytes of them at most, the last ones: 32 numbers of 16 digits in each of 8
-- replies that may be on their way.
local NAMED_BYTES = 4352

local field = 'named:' .. call.session
local _, of_epoch, list = dropped_read(redis.call('HGET', sem.key, field))
if of_epoch ~= call.epoch then list = '' end
for number in pairs(call.dropped) do list = list .. ' ' .. number end
sem.set[#sem.set + 1] = field
sem.set[#sem.set + 1] = string.format(' !%.0f%s', call.epoch,
    string.match(string.sub(list, -NAMED_BYTES), ' .*'))
