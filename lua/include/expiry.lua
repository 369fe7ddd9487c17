-- A busy semaphore expires a month after it was last touched, which a command
-- does once an hour. Both in ms. That removes garbage only.
local EXPIRE_MS, TOUCH_MS = 2592000000, 3600000
