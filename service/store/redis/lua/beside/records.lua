-- Read all records beside the state.
-- Begins with prelude.lua: unwritten comes from there.
--
-- KEYS  1 slots  2 probe
-- OK    key, value, ...
--
-- Race closed: none; a commit on the version that was read with them proves that they still hold.

return unwritten('OK', redis.call('HGETALL', KEYS[1]))
