-- Begin an index, or call it complete.
-- Begins with prelude.lua: reply comes from there.
--
-- KEYS  1 index
-- ARGV  1 'begin' or 'complete'  2 ms until it is forgotten
-- OK
--
-- An index is complete once everything that existed when it was begun has been added: what is created later is added
-- by its creator. It is forgotten after a while, with what it still has of sessions that are gone.
-- Race closed: an index that has expired in the meantime is not called complete.

local begun = redis.call('EXISTS', KEYS[1]) == 1
if ARGV[1] == 'complete' then
  if begun then
    redis.call('ZADD', KEYS[1], 0, COMPLETE)
  end
elseif not begun then
  redis.call('ZADD', KEYS[1], 0, BEGUN)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return reply('OK')
