-- Read counts beside the state.
-- Begins with prelude.lua: unwritten, read and append_values come from there.
--
-- KEYS  1 session  2 counts  3 probe
-- ARGV  1 number of fields  2.. fields
-- OK         version, the counts of all arms as one value, or nil, then the count of each field, or nil
-- NOT_FOUND  there is no session
--
-- Race closed: version and counts are of one commit.

local found = read(KEYS[1], 'version', 'counts')
if not found[1] then
  return unwritten('NOT_FOUND')
end
append_values(found, KEYS[2], 2, 1 + ARGV[1])
return unwritten('OK', found)
