-- Read which sessions' time has come.
--
-- KEYS  1 reminders of a shard
-- ARGV  1 most of them
-- OK    session ids, the longest due first

return reply('OK', redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', integer(now_ms), 'LIMIT', 0, ARGV[1]))
