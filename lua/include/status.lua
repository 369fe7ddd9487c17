-- The words of every reply: how a command ended, and what an ask was told.
-- The C side has the same two tables (ngx_http_dsem_redis.h).
local STATUS = {
    ok = 0,
    resync = 1,     -- session, epoch or generation unknown: hello, declare
    stale = 2,      -- a hello whose epoch is not above the known one
    gone = 3,       -- bye was said for this session: it needs a new name
    broken = 4      -- the semaphore's own keys have the wrong type
}
