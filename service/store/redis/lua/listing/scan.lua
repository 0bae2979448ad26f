-- Sessions in part of the keyspace, with what lists show of them.
-- Begins with prelude.lua: unwritten and read come from there.
--
-- KEYS  1 probe
-- ARGV  1 cursor  2 pattern  3 keys to look at in one step  4 steps at most  5 sessions that are enough
-- OK    next cursor, then session key and fields of each session
--
-- Session keys follow from the scan, so they can't be named in KEYS; each is on this server.
-- Race closed: a replica that is being filled anew would show only a part.

local cursor, found = ARGV[1], {}
for _ = 1, ARGV[4] do
  local step = redis.call('SCAN', cursor, 'MATCH', ARGV[2], 'COUNT', ARGV[3])
  cursor = step[1]
  for _, key in ipairs(step[2]) do
    found[#found + 1] = key
  end
  if cursor == '0' or #found >= tonumber(ARGV[5]) then
    break
  end
end
for i = 1, #found do
  found[i] = listed_fields(found[i])
end
return unwritten('OK', cursor, found)
