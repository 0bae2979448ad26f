-- Create a session with all that belongs to it, or return the existing one.
-- Begins with prelude.lua: reply, confirmed, snapshot, integer, now_ms, find_buckets, deadline_of and expire_bucket
-- come from there.
--
-- KEYS  1 session  2 slots  3 log  4 segments  5 played  6.. seen buckets
--       last but one the index, where the server has it  last probe
-- ARGV  1 numbers of the buckets  2 width of a bucket, ms  3 version  4 spec  5 state  6 about
--       7 idle expiry, ms, or 0  8 kind byte and digest of an idempotency key, or ''  9 its answer
--       10 id to add to the index, where there is one, or '' where the index is not among the keys
-- OK      created_at and expires_at (nil without idle expiry): created, also by an earlier sending of this call
-- EXISTS  snapshot of the session that has this id; nothing was written
-- KEYS    nothing: the caller has to call again with the key of the present bucket; nothing was written
--
-- Race closed: two creators of one id; one gets OK and the other sees the winner's session. An index that has expired
-- in the meantime is not begun again.

local width, keys, present, _ = tonumber(ARGV[2])
if ARGV[8] ~= '' then
  keys, _, present = find_buckets(ARGV[1], width)
  if not keys then
    return reply('KEYS', '')
  end
end
local last = #KEYS - 1
if ARGV[10] ~= '' then
  if redis.call('EXISTS', KEYS[last]) == 1 then
    redis.call('ZADD', KEYS[last], 0, ARGV[10])
  end
  last = last - 1
end
if redis.call('EXISTS', KEYS[1]) == 1 then
  local session = snapshot(KEYS[1])
  if session[1] == ARGV[3] then
    return confirmed('OK', { session[4], session[5] })
  end
  return confirmed('EXISTS', session)
end

local created_at = time[1] .. '.' .. string.format('%06d', time[2])
redis.call('HSET', KEYS[1], 'version', ARGV[3], 'spec', ARGV[4], 'state', ARGV[5], 'created_at', created_at,
  'about', ARGV[6])
redis.call('UNLINK', unpack(KEYS, 2, last)) -- whatever a session deleted by hand may have left
local deadline = ARGV[7] ~= '0' and now_ms + ARGV[7] or nil
if deadline then
  redis.call('HSET', KEYS[1], 'expires_at', integer(deadline))
  redis.call('PEXPIREAT', KEYS[1], integer(deadline))
end
if ARGV[8] ~= '' then
  local latest = deadline_of(present, width)
  redis.call('HSET', KEYS[1], 'buckets', present .. '=' .. integer(latest))
  redis.call('HSET', keys[present], ARGV[8], ARGV[9])
  expire_bucket(keys[present], latest, deadline)
end
return reply('OK', { created_at, deadline and integer(deadline) or false })
