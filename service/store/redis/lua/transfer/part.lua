-- Read part of a copied hash, or of a sorted set.
-- Begins with prelude.lua: unwritten comes from there.
--
-- KEYS  1 hash, or sorted set  2 probe
-- ARGV  1 cursor  2 number of fields to look at  3 kind byte that fields begin with, and then values are left out; or ''
--       4 'HSCAN' or 'ZSCAN'
-- OK    next cursor, then fields and values (members and scores), or fields alone
--
-- Race closed: none; nobody changes a copy.

if ARGV[4] == 'ZSCAN' then
  return unwritten('OK', unpack(redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', ARGV[2])))
end
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
