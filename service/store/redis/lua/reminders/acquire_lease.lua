-- Become, or stay, the worker that sweeps.
-- Begins with prelude.lua: reply comes from there.
--
-- KEYS  1 the sweeper's name
-- ARGV  1 worker  2 for how long, ms
-- OK    this worker sweeps
-- TAKEN another one sweeps
--
-- A lease that lasts longer than it was given for was taken before the clock was set back: it counts as over.
--
-- Race closed: two workers that find the lease free (one gets it). Nothing depends on there being only one.

local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] and redis.call('PTTL', KEYS[1]) <= tonumber(ARGV[2]) then
  return reply('TAKEN')
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return reply('OK')
