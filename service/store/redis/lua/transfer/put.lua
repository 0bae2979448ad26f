-- Put part of a hash, or of a sorted set, that a session is restored from into a key that expires.
-- Begins with prelude.lua: reply comes from there.
--
-- KEYS  1 hash, or sorted set
-- ARGV  1 ms it is kept  2 number of items  3 'HSET' or 'ZADD'  4.. items (field, value, ... or score, member, ...)
-- OK
--
-- Race closed: none; only its writer knows the key's name.

if ARGV[3] == 'ZADD' then
  redis.call('ZADD', KEYS[1], unpack(ARGV, 4, 3 + ARGV[2]))
else
  redis.call('HSET', KEYS[1], unpack(ARGV, 4, 3 + ARGV[2]))
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return reply('OK')
