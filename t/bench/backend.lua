-- The backend of a contended run, in one nginx worker: a request takes a number
-- of milliseconds, and concurrent requests are counted. It counts down before
-- it responds, because the next request may arrive at once.
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
    -- writing the response to the kernel is part of the service time
    served = served + 1
    took = took + (now() - start)
end

-- Prints the time, requests served so far, their service time in seconds,
-- running requests, and the peak since the last report.
function backend.report()
    ngx.print(string.format('%.6f %d %.6f %d %d\n', now(), served, took,
        running, peak))
    peak = running
end

return backend
