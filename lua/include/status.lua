-- The status of a command: the fourth element of every reply. ngx_module/ has
-- the same table in C.
-- R15: codes in replies
local STATUS = {
    ok = 0,
    resync = 1,     -- session, epoch or generation unknown: hello, declare
    stale = 2,      -- hello with an epoch not above the registered one
    gone = 3,       -- hello of a session that bye has removed: new name needed
    broken = 4,     -- a key of the semaphore has the wrong type; of sync,
                    -- declare and adjust its number in KEYS follows
    layout = 5,     -- hello: the state has another layout, and is in use
    unlisted = 6,   -- sync of a pool: its list of servers is unknown
    mixed = 7       -- it is a pool, and plain for this session, or reverse
}
