-- The accounts of sessions that have ended, for commands that leave the dead
-- tickets of these to a later sync. What is needed for it is in a block: Lua
-- allows 200 local variables at a time, and adjust is near that.

-- @include "include/ended.lua"

local semaphore_learn
do
-- @include "include/semaphore_ended.lua"
-- @include "include/dead_wait.lua"

function semaphore_learn(sem, view)
    if sem.seen == view.ended then return end
    semaphore_drop_ended(sem, view)
    if dead_wait(sem) then dead_later(sem, view) end
end
end
