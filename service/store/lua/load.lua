-- Read a session.
--
-- KEYS  1 session
-- OK    snapshot
-- GONE  there is none
--
-- Race closed: all fields are of one version.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return reply('GONE')
end
return reply('OK', snapshot(KEYS[1]))
