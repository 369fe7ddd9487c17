-- The conventional limiter that dsem is compared with: one member of a sorted
-- set for each request, counted and added by a script before the request, and
-- removed by a timer after it. It uses raw RESP over a pool of connections, so
-- that no client library affects the result.
--
-- Called by: nginx.conf of Bench::Subject (access_by_lua, log_by_lua).

local COUNT_AND_ADD = [[
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[1])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[4])
return 1
]]

-- seconds after which the permit of a lost node is free again
local TTL = 60
local POOL, IDLE_MS = 256, 60000

local sha
local last = 0
local peer = {}

local function command(...)
    local out = { '*', select('#', ...), '\r\n' }
    for i = 1, select('#', ...) do
        local part = tostring((select(i, ...)))
        out[#out + 1] = '$' .. #part .. '\r\n' .. part .. '\r\n'
    end
    return out
end

-- Returns the first line of the reply, or the string of a bulk reply.
local function ask(port, ...)
    local sock = ngx.socket.tcp()
    sock:settimeout(1000)
    assert(sock:connect('127.0.0.1', port))
    assert(sock:send(command(...)))
    local line = assert(sock:receive())
    if string.sub(line, 1, 1) == '$' then
        line = assert(sock:receive(tonumber(string.sub(line, 2)) + 2))
    end
    sock:setkeepalive(IDLE_MS, POOL)
    return line
end

function peer.enter(port, key, limit)
    sha = sha or string.sub(ask(port, 'SCRIPT', 'LOAD', COUNT_AND_ADD), 1, 40)
    last = last + 1
    local member = ngx.worker.pid() .. ':' .. last
    local now = ngx.now()
    if ask(port, 'EVALSHA', sha, 1, key, now, limit, now + TTL, member)
        ~= ':1'
    then
        return ngx.exit(503)
    end
    ngx.ctx.member = member
end

local function remove(_, port, key, member)
    ask(port, 'ZREM', key, member)
end

function peer.leave(port, key)
    if ngx.ctx.member then
        ngx.timer.at(0, remove, port, key, ngx.ctx.member)
    end
end

return peer
