-- Say which schemas of states a worker reads, and find out what each live one reads.
-- Begins with prelude.lua: reply, now_ms, integer and keep come from there.
--
-- KEYS  1 schemas: a worker's name and the numbers, separated by spaces, scored by the ms until which it counts
-- ARGV  1 name and numbers  2 how long it counts from now on, ms; 0 to be no longer counted
-- OK    name and numbers of each worker that counts
--
-- Race closed: two workers that begin at once; the later one is told of both, the earlier one when it renews.

if ARGV[2] ~= '0' then
  redis.call('ZADD', KEYS[1], now_ms + ARGV[2], ARGV[1])
  keep(KEYS[1], now_ms + ARGV[2], 0)
else
  redis.call('ZREM', KEYS[1], ARGV[1])
end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', integer(now_ms))) do
  redis.call('ZREM', KEYS[1], gone)
end
return reply('OK', redis.call('ZRANGE', KEYS[1], 0, -1))
