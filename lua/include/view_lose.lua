-- @include "include/shard_write.lua"

-- All state counts as lost: a new generation makes every session say hello and
-- declare.
local function view_lose(view)
    local leases = redis.call('HGET', view.key, 'leases')
    local longest = tonumber(string.match(leases or '', '(%d+) %d+$'))
    view.gen = view.gen + 1
    view.recover_until = view_clock(view) + (longest or view.entry.lease)
    redis.call('HSET', view.key, 'created', string.format('%.0f', view.now))
    shard_write(view)
end
