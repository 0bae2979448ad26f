-- Keep a sample of a session's history.
-- Begins with prelude.lua: reply, unwritten and read come from there.
--
-- KEYS  1 session  2 probe
-- ARGV  1 created_at of the session that the sample is of  2 field  3 sample
-- OK         kept; the number of samples now
-- NOT_FOUND  there is no such session, or another one has this id
--
-- Race closed: a session that was deleted, and made again, gets no sample of the one before.

local stored = read(KEYS[1], 'created_at', 'samples', ARGV[2])
if tonumber(stored[1] or nil) ~= tonumber(ARGV[1]) or not tonumber(ARGV[1]) then
  return unwritten('NOT_FOUND')
end
local samples = tonumber(stored[2] or nil) or 0
samples = stored[3] and samples or samples + 1
redis.call('HSET', KEYS[1], ARGV[2], ARGV[3], 'samples', samples)
return reply('OK', samples)
