-- Delete a session with all that belongs to it.
-- Begins with prelude.lua: reply, confirmed, read and find_buckets come from there.
--
-- KEYS  1 session  2 slots  3 log  4 segments  5 played  6.. seen buckets  last probe
-- ARGV  1 numbers of the buckets  2 width of a bucket, ms
-- OK         deleted
-- NOT_FOUND  there was no session (leftovers are deleted all the same)
-- KEYS       the session's field `buckets`: the caller has to call again with the keys of these buckets too;
--            nothing was deleted
--
-- Race closed: a commit under way finds all keys or none, and re-creates none.

local listed = read(KEYS[1], 'buckets')[1] or ''
if not find_buckets(ARGV[1], tonumber(ARGV[2]), listed) then
  return reply('KEYS', listed)
end
local existed = redis.call('EXISTS', KEYS[1])
redis.call('UNLINK', unpack(KEYS))
return existed == 1 and reply('OK') or confirmed('NOT_FOUND')
