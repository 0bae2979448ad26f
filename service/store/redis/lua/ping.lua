-- Find out whether a commit could be written now.
-- Begins with prelude.lua: confirmed comes from there.
--
-- KEYS  1 probe
-- ARGV  1 as many bytes as the largest commit has that was refused for want of room
-- OK    it could; else the server's own error (READONLY, OOM, MISCONF, NOREPLICAS ...)
--
-- XX writes only over a present value, so this changes nothing and still passes every check of a write.

redis.call('SET', KEYS[1], '', 'XX')
return confirmed('OK')
