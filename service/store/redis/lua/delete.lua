-- Delete a session with all that belongs to it.
-- Begins with prelude.lua: reply, confirmed and present_bucket come from there.
--
-- KEYS  1 session  2 slots  3-9 seen buckets  10 counts  11 log  12 probe
-- ARGV  1 number of KEYS[3]  2 bucket width, ms
-- OK         deleted
-- NOT_FOUND  there was no session (leftovers are deleted all the same)
-- CLOCK      the caller's buckets don't hold the present time; nothing was deleted
--
-- Race closed: a commit under way finds all keys or none, and re-creates none.

if not present_bucket(tonumber(ARGV[1]), tonumber(ARGV[2])) then
  return reply('CLOCK')
end
local existed = redis.call('EXISTS', KEYS[1])
redis.call('UNLINK', unpack(KEYS))
return existed == 1 and reply('OK') or confirmed('NOT_FOUND')
