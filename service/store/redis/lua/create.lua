-- Create a session with all that belongs to it, or return the existing one.
-- Begins with prelude.lua: reply, confirmed, snapshot, integer, now_ms, present_bucket and expire_bucket come
-- from there.
--
-- KEYS  1 session  2 slots  3-9 seen buckets  10 counts  11 log  12 probe
-- ARGV  1 number of KEYS[3]  2 bucket width, ms  3 version  4 spec  5 state  6 about  7 summary
--       8 idle expiry, ms, or 0  9 kind byte and digest of an idempotency key, or ''  10 its answer
-- OK      created, also where an earlier sending of this call created it
-- EXISTS  snapshot of the session that has this id; nothing was written
-- CLOCK   the caller's buckets don't hold the present time; nothing was written
--
-- Race closed: two creators of one id; one gets OK and the other sees the winner's session.

local oldest, width = tonumber(ARGV[1]), tonumber(ARGV[2])
local present = present_bucket(oldest, width)
if not present then
  return reply('CLOCK')
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  local session = snapshot(KEYS[1])
  return session[1] == ARGV[3] and confirmed('OK') or confirmed('EXISTS', session)
end

local created_at = time[1] .. '.' .. string.format('%06d', time[2])
redis.call('HSET', KEYS[1], 'version', ARGV[3], 'spec', ARGV[4], 'state', ARGV[5], 'created_at', created_at,
  'about', ARGV[6], 'summary', ARGV[7])
redis.call('UNLINK', unpack(KEYS, 2, #KEYS - 1)) -- whatever a session deleted by hand may have left
local deadline = ARGV[8] ~= '0' and now_ms + ARGV[8] or nil
if deadline then
  redis.call('HSET', KEYS[1], 'expires_at', integer(deadline))
  redis.call('PEXPIREAT', KEYS[1], integer(deadline))
end
if ARGV[9] ~= '' then
  redis.call('HSET', KEYS[present], ARGV[9], ARGV[10])
  expire_bucket(present, oldest, width, deadline)
end
return reply('OK')
