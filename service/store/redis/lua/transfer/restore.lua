-- Create a session from parts that were put into keys that expire.
-- Begins with prelude.lua: reply, confirmed, snapshot, integer and now_ms come from there.
--
-- KEYS  1 session  2 slots  3 log  4 segments  5 played  6 part for the session: its counts  7 part for slots
--       8 part for segments  9 part for played  10.. part for a bucket and the bucket, for each  last probe
-- ARGV  1 version  2 spec  3 state  4 created_at  5 about  6 idle expiry, ms, or 0
--       7 field `buckets`  8.. deadline (ms) of each bucket
-- OK      created, also where an earlier sending of this call created it
-- EXISTS  snapshot of the session that has this id; nothing was written
--
-- Race closed: two creators of one id; one gets OK and the other sees the winner's session.

if redis.call('EXISTS', KEYS[1]) == 1 then
  local session = snapshot(KEYS[1])
  return session[1] == ARGV[1] and confirmed('OK') or confirmed('EXISTS', session)
end

redis.call('HSET', KEYS[6], 'version', ARGV[1], 'spec', ARGV[2], 'state', ARGV[3], 'created_at', ARGV[4],
  'about', ARGV[5])
redis.call('UNLINK', unpack(KEYS, 2, 5)) -- whatever a session deleted by hand may have left
local deadline = ARGV[6] ~= '0' and now_ms + ARGV[6] or nil

local function move(from, to)
  if redis.call('EXISTS', from) == 1 then
    redis.call('RENAME', from, to)
    redis.call('PERSIST', to)
    if deadline then
      redis.call('PEXPIREAT', to, integer(deadline))
    end
  end
end

move(KEYS[6], KEYS[1])
move(KEYS[7], KEYS[2])
move(KEYS[8], KEYS[4])
move(KEYS[9], KEYS[5])
for i = 10, #KEYS - 1, 2 do
  local latest = tonumber(ARGV[8 + (i - 10) / 2])
  redis.call('RENAME', KEYS[i], KEYS[i + 1])
  redis.call('PEXPIREAT', KEYS[i + 1], integer(deadline and math.min(deadline, latest) or latest))
end
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[1], 'buckets', ARGV[7])
end
if deadline then
  redis.call('HSET', KEYS[1], 'expires_at', integer(deadline))
end
return reply('OK')
