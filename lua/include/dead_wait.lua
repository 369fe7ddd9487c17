-- Whether there are dead tickets, which dead.lua drops.

-- Whether more tickets are in the queue than are counted.
local function dead_wait(sem)
    local members = queue_call('ZCARD', sem.queue)
    return members and members - #sem.removed > sem.waiting + 1
end

-- This call has seen an end, and drops none of them: a later sync does. It does
-- so anyhow where not all accounts of a scan were read.
local function dead_later(sem, view)
    if sem.seen == view.ended and dead_wait(sem) then
        sem.seen = view.ended - 1
    end
end
