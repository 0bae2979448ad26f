-- Read part of a copied hash, or of a sorted set.
-- Begins with prelude.lua: unwritten comes from there.
--
-- KEYS  1 hash, or sorted set  2 probe
-- ARGV  1 cursor  2 number of fields to look at  3 pattern of the fields that are wanted  4 'HSCAN' or 'ZSCAN'
-- OK    next cursor, then field, value (member, score), ...
--
-- Race closed: none; nobody changes a copy.

if ARGV[4] == 'ZSCAN' then
  return unwritten('OK', unpack(redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])))
end
return unwritten('OK', unpack(redis.call('HSCAN', KEYS[1], ARGV[1], 'MATCH', ARGV[3], 'COUNT', ARGV[2])))
