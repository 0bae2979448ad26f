-- Ids in the index that begin with a prefix, in order.
-- Begins with prelude.lua: reply and listed_fields come from there.
--
-- KEYS  1 index
-- ARGV  1 where to begin: '[' and the prefix, or '(' and an id  2 where to end  3 number of ids
--       4 first part of a session key, or '' where sessions are on other servers
-- OK       how many ids begin so, the ids, and session key and fields of each
-- MISSING  there is no complete index
--
-- Race closed: an id is dropped from the index at the moment at which it has no session, so that none is dropped that
-- was created since. Removing a member that never exists fails on a replica.

redis.call('ZREM', KEYS[1], '')
if not redis.call('ZSCORE', KEYS[1], COMPLETE) then
  return reply('MISSING')
end
local ids = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local found = {}
for i = 1, ARGV[4] == '' and 0 or #ids do
  found[i] = listed_fields(ARGV[4] .. ids[i] .. '}')
  if not found[i][2] then
    redis.call('ZREM', KEYS[1], ids[i])
  end
end
return reply('OK', redis.call('ZLEXCOUNT', KEYS[1], ARGV[1], ARGV[2]), ids, found)
