-- Part of the keyspace.
-- Begins with prelude.lua: unwritten comes from there.
--
-- KEYS  1 probe
-- ARGV  1 cursor  2 pattern  3 count
-- OK    next cursor, and the keys that match
--
-- Race closed: a replica that is being filled anew would show only a part.

return unwritten('OK', unpack(redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])))
