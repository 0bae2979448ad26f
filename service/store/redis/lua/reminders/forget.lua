-- Drop the note of a session that no longer exists.
-- Begins with prelude.lua: reply comes from there.
--
-- KEYS  1 reminders of a shard
-- ARGV  1 session id
-- OK    there is none now
--
-- Race closed: none; a note of a session made anew under this id is a hint too.

redis.call('ZREM', KEYS[1], ARGV[1])
return reply('OK')
