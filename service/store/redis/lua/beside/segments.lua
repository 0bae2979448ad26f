-- Read segments by name, and which were played least recently.
-- Begins with prelude.lua: unwritten, read and append_values come from there.
--
-- KEYS  1 session  2 segments  3 played  4 probe
-- ARGV  1 number of the least recently played to name  2 number of names  3.. names
-- OK         version, the record of each name (or nil), then name and slot of the least recently played, ascending
-- NOT_FOUND  there is no session
--
-- Race closed: version and segments are of one commit.

local version = read(KEYS[1], 'version')[1]
if not version then
  return unwritten('NOT_FOUND')
end
local records = {}
append_values(records, KEYS[2], 3, 2 + ARGV[2])
local oldest = {}
if ARGV[1] ~= '0' then
  oldest = redis.call('ZRANGE', KEYS[3], 0, ARGV[1] - 1, 'WITHSCORES')
end
return unwritten('OK', { version, records, oldest })
