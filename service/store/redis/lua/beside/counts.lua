-- Read counts of arms.
-- Begins with prelude.lua: unwritten and read come from there.
--
-- KEYS  1 session  2 probe
-- ARGV  indexes of arms; the last: prelude.lua
-- OK         version, then six doubles for each arm; what somebody changed to what is no number is 0
-- NOT_FOUND  there is no session
--
-- Race closed: version and counts are of one commit.

local ARMS = 16 -- whose counts are one vector: see base.py
local found, vectors = read(KEYS[1], 'version'), {}
if not found[1] then
  return unwritten('NOT_FOUND')
end
for i = 1, #ARGV - 1 do
  local place = ARGV[i] % ARMS
  local group = (ARGV[i] - place) / ARMS
  if not vectors[group] then
    local is_read, numbers = pcall(function() return { cmsgpack.unpack(read(KEYS[1], '#' .. group)[1]) } end)
    vectors[group] = is_read and numbers or {}
  end
  local row = {}
  for kind = 1, 6 do
    local count = vectors[group][place + 1 + (kind - 1) * ARMS]
    row[kind] = type(count) == 'number' and math.abs(count) < math.huge and count or 0
  end
  found[1 + i] = struct.pack('>dddddd', unpack(row))
end
return unwritten('OK', found)
