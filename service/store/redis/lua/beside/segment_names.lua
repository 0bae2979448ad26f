-- Read some of the names of a session's segments.
-- Begins with prelude.lua: unwritten comes from there.
--
-- KEYS  1 played  2 probe
-- ARGV  1 cursor  2 number of names to look at
-- OK    next cursor, then name and slot, ...
--
-- Race closed: none; names that are there all along are found.

local found = redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
return unwritten('OK', found[1], found[2])
