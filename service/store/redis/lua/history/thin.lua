-- Drop samples of a session's history.
-- Begins with prelude.lua: reply, unwritten and read come from there.
--
-- KEYS  1 session  2 probe
-- ARGV  1 how many stay  2 upto the last but one: fields
-- OK         dropped
-- NOT_FOUND  there is no session
--
-- Race closed: none; dropping a sample twice is dropping it.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return unwritten('NOT_FOUND')
end
redis.call('HDEL', KEYS[1], unpack(ARGV, 2, #ARGV - 1))
redis.call('HSET', KEYS[1], 'samples', ARGV[1])
return reply('OK')
