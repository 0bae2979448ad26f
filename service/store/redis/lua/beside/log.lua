-- Read part of a session's log.
-- Begins with prelude.lua: confirmed and listed_fields come from there.
--
-- KEYS  1 session  2 log  3 probe
-- ARGV  1 position to begin with  2 number of entries
-- OK         what lists show of the session, and the entries: position and time, then field and entry
-- NOT_FOUND  there is no session
--
-- Races closed: the log is that of the session, not of one that had its id before; no entry is read that a failover
-- may lose, whose position would then be another's.

local session = listed_fields(KEYS[1])
if not session[2] then
  return confirmed('NOT_FOUND')
end
return confirmed('OK', session, redis.call('XRANGE', KEYS[2], ARGV[1], '+', 'COUNT', ARGV[2]))
