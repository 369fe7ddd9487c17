-- The backend of a contended run, in one nginx worker: a call takes so many
-- milliseconds, and what is served at once is counted here, at the place
-- where it matters. Counts down before it answers, so that the next call
-- never meets the last one.
--
-- Called by: nginx.conf of Bench::Backend.

local ffi = require 'ffi'

ffi.cdef [[
typedef struct { long sec; long nsec; } bench_timespec;
int clock_gettime(int clock, bench_timespec *now);
]]

local CLOCK_MONOTONIC = 1
local spec = ffi.new('bench_timespec')

local function now()
    ffi.C.clock_gettime(CLOCK_MONOTONIC, spec)
    return tonumber(spec.sec) + tonumber(spec.nsec) / 1e9
end

local running, peak, served, took = 0, 0, 0, 0
local backend = {}

function backend.serve(ms)
    local start = now()
    running = running + 1
    if running > peak then peak = running end
    ngx.sleep(ms / 1000)
    running = running - 1
    ngx.header.content_length = 3
    ngx.print('ok\n')
    ngx.eof()
    -- what it takes to hand the answer to the kernel is service, too
    served = served + 1
    took = took + (now() - start)
end

-- The time, calls served so far, the seconds that they took, how many run,
-- and the most that ran since the last time somebody asked.
function backend.report()
    ngx.print(string.format('%.6f %d %.6f %d %d\n', now(), served, took,
        running, peak))
    peak = running
end

return backend
