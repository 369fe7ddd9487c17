-- adjust: stub
-- @include "include/status.lua"
local epoch, number = string.match(ARGV[2], '^(%d+) (%d+)')
return { ARGV[1], tonumber(epoch), tonumber(number), STATUS.ok, 10, 10, 0, 1, 1, 100 }
