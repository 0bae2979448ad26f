-- Read records of open slots.
--
-- KEYS  1 slots  2 probe
-- ARGV  the records' keys
-- OK    their values in order, nil for those that don't exist
--
-- Race closed: none; a commit on the version that was read with them proves that they still hold.

local values = {}
for from = 1, #ARGV, CHUNK do
  local chunk = redis.call('HMGET', KEYS[1], unpack(ARGV, from, math.min(#ARGV, from + CHUNK - 1)))
  for i = 1, #chunk do
    values[#values + 1] = chunk[i]
  end
end
return unwritten('OK', values)
