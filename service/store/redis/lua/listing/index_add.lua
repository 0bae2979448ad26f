-- Add sessions to the index, where there is one.
-- Begins with prelude.lua: reply comes from there.
--
-- KEYS  1 index
-- ARGV  1 number of ids  2.. ids
-- OK
--
-- Race closed: an index that has expired in the meantime is not begun again.

if redis.call('EXISTS', KEYS[1]) == 1 then
  for at = 2, 1 + ARGV[1] do
    redis.call('ZADD', KEYS[1], 0, ARGV[at])
  end
end
return reply('OK')
