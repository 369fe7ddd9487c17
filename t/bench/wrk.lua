-- What wrk has seen, for Bench::Wrk to read: its own report has no number of
-- answers by kind, and two of its processes cannot be added up from it.
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
