-- Return the key that signs tokens, and make it if there is none.
-- Begins with prelude.lua: confirmed comes from there.
--
-- KEYS  1 key of tokens  2 probe
-- ARGV  1 a new one
-- OK    the key, for all workers
--
-- Race closed: two workers that need it first; both get that of the first.

redis.call('SET', KEYS[1], ARGV[1], 'NX')
return confirmed('OK', redis.call('GET', KEYS[1]))
