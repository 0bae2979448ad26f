-- Function of commits: counts of arms after one; scripts.py reads it.

-- A vector of counts, packed (false where there is none), after what `added` says is added to it: place and amount of
-- each number that changes. It raises an error where somebody changed such a number to what is none.
local function sum(packed, added)
  local sums, changes = packed and { cmsgpack.unpack(packed) } or {}, { cmsgpack.unpack(added) }
  for i = 1, #changes, 2 do
    local place = changes[i]
    for missing = #sums + 1, place do
      sums[missing] = 0
    end
    sums[place] = sums[place] + changes[i + 1]
  end
  return cmsgpack.pack(unpack(sums))
end
