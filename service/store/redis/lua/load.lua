-- Read a session.
-- Begins with prelude.lua: unwritten and snapshot come from there.
--
-- KEYS  1 session  2 probe
-- OK         snapshot
-- NOT_FOUND  there is none
--
-- Race closed: all fields are of one version.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return unwritten('NOT_FOUND')
end
return unwritten('OK', snapshot(KEYS[1]))
