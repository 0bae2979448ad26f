-- Read some of the records beside the state.
-- Begins with prelude.lua: unwritten comes from there.
--
-- KEYS  1 slots  2 probe
-- ARGV  1 cursor  2 number of records to look at
-- OK    next cursor, then key, value, ...
--
-- Race closed: none; a commit on the version that was read with them proves that all of them still hold.

local found = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
return unwritten('OK', found[1], found[2])
