-- Sessions in part of the keyspace, with what lists show of them.
-- Begins with prelude.lua: unwritten and read come from there.
--
-- KEYS  1 probe
-- ARGV  1 cursor  2 pattern  3 fewest keys to look at in one step  4 steps at most  5 sessions that are enough
--       6 '1' to read what lists show, '0' where the keys are enough: an index is made of them
-- OK    next cursor, then session key and fields of each session
--
-- Session keys follow from the scan, so they can't be named in KEYS; each is on this server.
-- Race closed: a replica that is being filled anew would show only a part.

local cursor, found, enough = ARGV[1], {}, tonumber(ARGV[5])
for _ = 1, ARGV[4] do
  -- No more than are missing: the caller has to carry those that are too many.
  local count = math.max(ARGV[3], enough - #found)
  local step = redis.call('SCAN', cursor, 'MATCH', ARGV[2], 'COUNT', count)
  cursor = step[1]
  for _, key in ipairs(step[2]) do
    found[#found + 1] = key
  end
  if cursor == '0' or #found >= enough then
    break
  end
end
for i = 1, #found do
  found[i] = ARGV[6] == '1' and listed_fields(found[i]) or { found[i], '', '', '', '', '' }
end
return unwritten('OK', cursor, found)
