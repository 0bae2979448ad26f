-- Functions of commit.lua: counts of arms after a commit; scripts.py reads them.
-- CHUNK comes from prelude.lua.

-- Items of HSET, a table for each command: two commands for all counts, where HINCRBY would be one for each. A count
-- that somebody changed by hand, to what is no number, stays.
--
-- key      the hash that has the counts
-- joined   fields and increments, in which `pattern` finds one after the other
-- sum      makes a field's value of the present one (or false) and an increment
local function sums(key, joined, pattern, sum)
  local commands, fields, increments = {}, {}, {}
  local function add()
    local values, items = redis.call('HMGET', key, unpack(fields)), {}
    for i = 1, #fields do
      local is_sum, value = pcall(sum, values[i], increments[i])
      if is_sum then
        items[#items + 1], items[#items + 2] = fields[i], value
      end
    end
    commands[#commands + 1] = #items > 0 and items or nil
    fields, increments = {}, {}
  end
  for field, increment in string.gmatch(joined, pattern) do
    fields[#fields + 1], increments[#increments + 1] = field, increment
    if #fields == CHUNK / 2 then
      add()
    end
  end
  if #fields > 0 then
    add()
  end
  return commands
end

local function sum_of_packed(packed, added)
  local f, s, others = string.match(added, '(%d+) (%S+) (.*)')
  local feedbacks, losses, defaulted, expired, voided, removed = 0, 0
  if packed then
    feedbacks, losses, defaulted, expired, voided, removed = cmsgpack.unpack(packed)
  end
  if others == '' and not defaulted then
    return cmsgpack.pack(feedbacks + f, losses + s)
  end
  local d, x, v, r = string.match(others, '(%d+) (%d+) (%d+) (%d+)')
  d, x, v = (defaulted or 0) + (d or 0), (expired or 0) + (x or 0), (voided or 0) + (v or 0)
  return cmsgpack.pack(feedbacks + f, losses + s, d, x, v, (removed or 0) + (r or 0))
end

-- The counts of all arms as one value after a commit, by index: the packed ones of each, '' where it has none.
local function sum_of_joined(joined, added, pattern)
  local rows = joined and { cmsgpack.unpack(joined) } or {}
  for arm, increment in string.gmatch(added, pattern) do
    for at = #rows + 1, arm + 1 do
      rows[at] = ''
    end
    rows[arm + 1] = sum_of_packed(rows[arm + 1] ~= '' and rows[arm + 1], increment)
  end
  return cmsgpack.pack(unpack(rows))
end
