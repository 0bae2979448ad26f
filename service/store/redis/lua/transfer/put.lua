-- Put part of a hash that a session is restored from into a key that expires.
-- Begins with prelude.lua: reply comes from there.
--
-- KEYS  1 hash
-- ARGV  1 ms it is kept  2 number of items  3.. items (field, value, ...)
-- OK
--
-- Race closed: none; only its writer knows the key's name.

redis.call('HSET', KEYS[1], unpack(ARGV, 3, 2 + ARGV[2]))
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return reply('OK')
