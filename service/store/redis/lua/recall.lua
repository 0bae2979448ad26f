-- Read the answer stored under an idempotency key.
-- Begins with prelude.lua: reply, confirmed, read, find_buckets and remembered come from there.
--
-- KEYS  1 session  2 slots  3 log  4 segments  5 played  6.. seen buckets  last probe
-- ARGV  1 numbers of the buckets  2 width of a bucket, ms  3 kind byte and digest
-- OK     the answer, or nil
-- KEYS   the session's field `buckets`: the caller has to call again with the keys of these buckets too
--
-- Race closed: an answer that moves out of reach between two reads of buckets.

local listed = read(KEYS[1], 'buckets')[1] or ''
if not find_buckets(ARGV[1], tonumber(ARGV[2]), listed) then
  return reply('KEYS', listed)
end
return confirmed('OK', remembered(ARGV[3])[2] or false)
