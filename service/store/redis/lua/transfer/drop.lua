-- Delete copies.
-- Begins with prelude.lua: reply comes from there.
--
-- KEYS  copies
-- OK
--
-- Race closed: none; only their writer knows the keys' names.

redis.call('UNLINK', unpack(KEYS))
return reply('OK')
