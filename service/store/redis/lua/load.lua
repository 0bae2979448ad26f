-- Read a session.
--
-- KEYS  1 session  2 probe
-- OK    snapshot
-- GONE  there is none
--
-- Race closed: all fields are of one version.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return unwritten('GONE')
end
return unwritten('OK', snapshot(KEYS[1]))
