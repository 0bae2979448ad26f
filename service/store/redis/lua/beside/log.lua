-- Read part of a session's log.
-- Begins with prelude.lua: unwritten and read come from there.
--
-- KEYS  1 session  2 log  3 probe
-- ARGV  1 where to begin: '-' or '(' and a position  2 number of entries
-- OK         what lists show of the session, and the entries: position, then field and entry
-- NOT_FOUND  there is no session
--
-- Race closed: the log is that of the session, not of one that had its id before.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return unwritten('NOT_FOUND')
end
local about = read(KEYS[1], 'about')[1]
return unwritten('OK', { about, redis.call('XRANGE', KEYS[2], ARGV[1], '+', 'COUNT', ARGV[2]) })
