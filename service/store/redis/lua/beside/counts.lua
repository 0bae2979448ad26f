-- Read counts of arms.
-- Begins with prelude.lua: unwritten, read and append_values come from there.
--
-- KEYS  1 session  2 probe
-- ARGV  fields, each with the counts of some arms; the last: prelude.lua
-- OK         version, then each field, or nil
-- NOT_FOUND  there is no session
--
-- Race closed: version and counts are of one commit.

local found = read(KEYS[1], 'version')
if not found[1] then
  return unwritten('NOT_FOUND')
end
append_values(found, KEYS[1], 1, #ARGV - 1)
return unwritten('OK', found)
