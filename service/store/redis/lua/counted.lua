-- Function of reads: counts of arms; read comes from prelude.lua.

-- Six doubles for each arm that ARGV names, but for the last; what somebody changed to what is no number is 0. They
-- come behind what `found` holds.
local function counted(key, found)
  local ARMS, before, vectors = 16, #found, {} -- ARMS: whose counts are one vector: see base.py
  for i = 1, #ARGV - 1 do
    local place = ARGV[i] % ARMS
    local group = (ARGV[i] - place) / ARMS
    if not vectors[group] then
      local is_read, numbers = pcall(function() return { cmsgpack.unpack(read(key, '#' .. group)[1]) } end)
      vectors[group] = is_read and numbers or {}
    end
    local row = {}
    for kind = 1, 6 do
      local count = vectors[group][place + 1 + (kind - 1) * ARMS]
      row[kind] = type(count) == 'number' and math.abs(count) < math.huge and count or 0
    end
    found[before + i] = struct.pack('>dddddd', unpack(row))
  end
  return found
end
