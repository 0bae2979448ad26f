-- Read counts beside the state.
-- Begins with prelude.lua: unwritten, read and CHUNK come from there.
--
-- KEYS  1 session  2 counts  3 probe
-- ARGV  1 number of fields  2.. fields
-- OK         version, then the count of each field, or nil
-- NOT_FOUND  there is no session
--
-- Race closed: version and counts are of one commit.

local version = read(KEYS[1], 'version')[1]
if not version then
  return unwritten('NOT_FOUND')
end
local found, last = { version }, 1 + ARGV[1]
for at = 2, last, CHUNK do
  local values = redis.call('HMGET', KEYS[2], unpack(ARGV, at, math.min(at + CHUNK - 1, last)))
  for i = 1, #values do
    found[#found + 1] = values[i]
  end
end
return unwritten('OK', found)
