-- Copy all keys of a session, as they are at one version, to keys that expire.
-- Begins with prelude.lua: reply, unwritten, read and find_buckets come from there.
--
-- KEYS  1 session  2 slots  3 log  4 segments  5 played  6.. seen buckets  last probe
-- ARGV  1 numbers of the buckets  2 width of a bucket, ms  3 name that the copies' keys begin with  4 ms they are kept
-- OK         numbers and deadlines (ms) of the buckets that were copied
-- NOT_FOUND  there is no session
-- KEYS       the session's field `buckets`: the caller has to call again with the keys of these buckets too
--
-- Race closed: a commit between two of the copies.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return unwritten('NOT_FOUND')
end
local listed = read(KEYS[1], 'buckets')[1] or ''
local keys, deadlines = find_buckets(ARGV[1], tonumber(ARGV[2]), listed)
if not keys then
  return reply('KEYS', listed)
end

local function copy(from, name)
  if redis.call('COPY', from, ARGV[3] .. name, 'REPLACE') == 1 then
    redis.call('PEXPIRE', ARGV[3] .. name, ARGV[4])
    return true
  end
end

copy(KEYS[1], 'session')
copy(KEYS[2], 'slots')
copy(KEYS[4], 'segments')
copy(KEYS[5], 'played')
local buckets = {}
for number, deadline in pairs(deadlines) do
  if copy(keys[number], 'seen:' .. number) then
    buckets[#buckets + 1] = number
    buckets[#buckets + 1] = integer(deadline)
  end
end
return reply('OK', buckets)
