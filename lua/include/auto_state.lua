-- What is kept of limit=auto, in the HASH of a name: its field "." has the
-- state of the rule, integers in the order of AUTO_FIELDS; the field "history"
-- the last changes, the oldest first, " <clock> <limit> <reason>" each, in one
-- text, as displays read many; the field "usual" the usual time of all nodes,
-- and how many samples it is from; the field "permits", with weights above 1,
-- the time "opened" of a turn, and its sum of times multiplied by weights:
-- builds that know none of it go on with ".".
-- An hour after the last sample only the limit found counts: that in the shard
-- may be one that was tried. The HASH expires after a month.

-- ms without a sample, after which a state is no more than its limit
local AUTO_PAUSE_MS = 3600000
-- bytes of the last changes at most
local AUTO_HISTORY_BYTES = 2400

-- changes: how many are kept; noted: clock of the last; min, max: the bounds
local AUTO_FIELDS = { 'found', 'reason', 'floor', 'latency', 'min', 'max',
    'changes', 'noted', 'normal', 'mode', 'base', 'before', 'changed',
    'ceiling', 'blamed', 'again', 'count', 'sum', 'logs', 'squares', 'errors',
    'waited', 'span', 'peak', 'paced', 'paced_span', 'sessions', 'mean',
    'opened', 'tried', 'gain', 'gains', 'pairs', 'half', 'rise', 'level',
    'error', 'trial', 'trial_error', 'spread', 'step', 'up', 'lost', 'higher',
    'rest', 'known' }

-- The state, from its text; nil: there is none.
local function auto_parse(text)
    local s, n = {}, 0
    for word in string.gmatch(text or '', '-?%d+') do
        n = n + 1
        if AUTO_FIELDS[n] then s[AUTO_FIELDS[n]] = tonumber(word) end
    end
    return n == #AUTO_FIELDS and s or nil
end

-- Adds what is in the fields "usual" and "permits" to the state; texts: nil or
-- false, nothing. Builds that know no weights may have added to the sum.
local function auto_parse_more(s, usual, permits)
    local mean, of = string.match(usual or '', '^(%d+%.%d+) (%d+)$')
    s.usual, s.usual_of = tonumber(mean or 0), tonumber(of or 0)
    local opened, sum = string.match(permits or '', '^(%d+) (%d+)$')
    s.permits = s.sum
    if s.span > 0 and tonumber(opened) == s.opened then
        s.permits = math.max(s.sum, tonumber(sum))
    end
end
