-- Read a session, and counts of some arms.
-- Begins with prelude.lua and counted.lua: unwritten, snapshot and counted come from there.
--
-- KEYS  1 session  2 probe
-- ARGV  indexes of arms; the last: prelude.lua
-- OK         snapshot, then six doubles for each arm
-- NOT_FOUND  there is none
--
-- Race closed: all fields and counts are of one version.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return unwritten('NOT_FOUND')
end
return unwritten('OK', snapshot(KEYS[1]), counted(KEYS[1], {}))
