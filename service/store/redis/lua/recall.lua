-- Read the answer stored under an idempotency key.
-- Begins with prelude.lua: reply, confirmed, present_bucket and remembered come from there.
--
-- KEYS  1 session  2 slots  3-9 seen buckets  10 counts  11 log  12 probe
-- ARGV  1 number of KEYS[3]  2 bucket width, ms  3 kind byte and digest
-- OK     the answer, or nil
-- CLOCK  the caller's buckets don't hold the present time
--
-- Race closed: an answer that moves out of reach between two reads of buckets.

if not present_bucket(tonumber(ARGV[1]), tonumber(ARGV[2])) then
  return reply('CLOCK')
end
return confirmed('OK', remembered(ARGV[3])[2] or false)
