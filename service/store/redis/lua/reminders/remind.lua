-- Note when a session has decisions due; an earlier note stands.
-- Begins with prelude.lua: reply and keep come from there.
--
-- KEYS  1 reminders of a shard: session id, scored by ms
-- ARGV  1 session id  2 ms  3 how long after it the note is kept, ms
-- OK    noted
--
-- Race closed: none; a note that is lost costs a delay until the session is touched again.

redis.call('ZADD', KEYS[1], 'LT', ARGV[2], ARGV[1])
keep(KEYS[1], ARGV[2], ARGV[3])
return reply('OK')
