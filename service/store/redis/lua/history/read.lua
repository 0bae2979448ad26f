-- Read the history of a session.
-- Begins with prelude.lua: unwritten comes from there.
--
-- KEYS  1 session  2 probe
-- ARGV  1 glob of the fields of samples
-- OK         field and sample, ...
-- NOT_FOUND  there is no session
--
-- Race closed: none; samples are written one at a time.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return unwritten('NOT_FOUND')
end
local found, cursor = {}, '0'
repeat
  local part = redis.call('HSCAN', KEYS[1], cursor, 'MATCH', ARGV[1], 'COUNT', CHUNK)
  cursor = part[1]
  for i = 1, #part[2] do
    found[#found + 1] = part[2][i]
  end
until cursor == '0'
return unwritten('OK', found)
