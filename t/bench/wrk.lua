-- The results of wrk in a form for Bench::Wrk: wrk's own report does not count
-- responses by kind, and reports of two processes cannot be combined.
--
-- Called by: wrk.

local STEPS = 500

function done(summary, latency)
    local errors = summary.errors
    io.write(string.format('bench %d %d %d %d\n', summary.requests,
        summary.duration, errors.status,
        errors.connect + errors.read + errors.write))
    for i = 1, STEPS do
        io.write('latency ', latency:percentile((i - 0.5) / STEPS * 100), '\n')
    end
    io.write('max ', latency.max, '\n')
end
