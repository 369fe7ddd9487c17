-- The last endings of sessions, this many, are in fields "ended:<n>" of the
-- shard.
local LOGGED = 512
