-- Replace a note that is due by the next one, or drop it.
-- Begins with prelude.lua: reply, now_ms and keep come from there.
--
-- KEYS  1 reminders of a shard
-- ARGV  1 session id  2 ms of the next note, or ''  3 how long after it the note is kept, ms
-- OK    done
--
-- Race closed: a later note that another worker made meanwhile stays.

local at = redis.call('ZSCORE', KEYS[1], ARGV[1])
if at and tonumber(at) <= now_ms then
  redis.call('ZREM', KEYS[1], ARGV[1])
  if ARGV[2] ~= '' then
    redis.call('ZADD', KEYS[1], ARGV[2], ARGV[1])
    keep(KEYS[1], ARGV[2], ARGV[3])
  end
end
return reply('OK')
