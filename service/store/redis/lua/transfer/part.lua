-- Read part of a copied hash.
-- Begins with prelude.lua: unwritten comes from there.
--
-- KEYS  1 hash  2 probe
-- ARGV  1 cursor  2 number of fields to look at  3 kind byte that fields begin with, and then values are left out; or ''
-- OK    next cursor, then fields and values, or fields alone
--
-- Race closed: none; nobody changes a copy.

local found = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])
if ARGV[3] == '' then
  return unwritten('OK', found[1], found[2])
end
local fields = {}
for i = 1, #found[2], 2 do
  if string.sub(found[2][i], 1, 1) == ARGV[3] then
    fields[#fields + 1] = found[2][i]
  end
end
return unwritten('OK', found[1], fields)
