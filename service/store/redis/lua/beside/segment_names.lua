-- Read some of the names of a session's segments, in the order of their bytes.
-- Begins with prelude.lua: unwritten comes from there.
--
-- KEYS  1 played  2 copy of the names  3 probe
-- ARGV  1, 2 from and to, as ZRANGE takes them  3 most names  4 '1' to go backwards  5 '1' to copy the names anew
--       6 ms for which the copy is kept
-- OK    names
--
-- Commits don't keep names in this order: the first page copies them, and the others read the copy.
--
-- Race closed: a copy that expires between two pages is made again. Segments that are there all along are found; one
-- that began after the copy was made is not, and one that was dropped still is.

if ARGV[5] == '1' or redis.call('EXISTS', KEYS[2]) == 0 then
  redis.call('UNLINK', KEYS[2]) -- A full server lets the next command pass, as it comes after this one.
  redis.call('ZUNIONSTORE', KEYS[2], 1, KEYS[1], 'WEIGHTS', 0)
  redis.call('PEXPIRE', KEYS[2], ARGV[6])
end
if ARGV[4] == '1' then
  return unwritten('OK', redis.call('ZRANGE', KEYS[2], ARGV[1], ARGV[2], 'BYLEX', 'REV', 'LIMIT', 0, ARGV[3]))
end
return unwritten('OK', redis.call('ZRANGE', KEYS[2], ARGV[1], ARGV[2], 'BYLEX', 'LIMIT', 0, ARGV[3]))
