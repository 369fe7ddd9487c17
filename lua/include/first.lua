-- The class of the first ticket that waits, where it is unknown, and where none
-- waits.
local FIRST_UNKNOWN, FIRST_NONE = -100, 100
