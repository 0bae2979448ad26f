-- Read which sessions have decisions due.
-- Begins with prelude.lua: reply, integer and now_ms come from there.
--
-- KEYS  1 reminders of a shard
-- ARGV  1 how many at most
-- OK    session ids, the longest due first

return reply('OK', redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', integer(now_ms), 'LIMIT', 0, ARGV[1]))
