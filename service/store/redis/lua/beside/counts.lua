-- Read counts of arms.
-- Begins with prelude.lua and counted.lua: unwritten, read and counted come from there.
--
-- KEYS  1 session  2 probe
-- ARGV  indexes of arms; the last: prelude.lua
-- OK         version, then six doubles for each arm
-- NOT_FOUND  there is no session
--
-- Race closed: version and counts are of one commit.

local found = read(KEYS[1], 'version')
if not found[1] then
  return unwritten('NOT_FOUND')
end
return unwritten('OK', counted(KEYS[1], found))
