-- Whether there are dead tickets, which dead.lua drops.

-- Whether more tickets are in the queue than are counted.
local function dead_wait(sem)
    local members = queue_call('ZCARD', sem.queue)
    return members and members - #sem.removed > sem.waiting + 1
end

-- They are left to a later sync, as if this call had not seen the last end. It
-- drops them anyhow where not all accounts of a scan were read.
local function dead_later(sem, view)
    if sem.seen == view.ended then sem.seen = view.ended - 1 end
end
