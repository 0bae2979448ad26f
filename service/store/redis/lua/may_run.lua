-- Find out which commands this user may not run.
-- Begins with prelude.lua: reply comes from there.
--
-- KEYS  1 probe
-- ARGV  names of commands; the last one is not one of them
-- OK    those that it may not run; UNKNOWN where the server is too old to tell

if not redis.acl_check_cmd then
  return reply('UNKNOWN')
end
local key = KEYS[1]
local function may_run(name)
  if name == 'EVALSHA' then
    return redis.acl_check_cmd(name, 'sha', '1', key)
  end
  return redis.acl_check_cmd(name, key, key, key, key) -- whichever of them the command takes for keys
end
local missing = {}
for i = 1, #ARGV - 1 do
  if not may_run(ARGV[i]) then
    missing[#missing + 1] = ARGV[i]
  end
end
return reply('OK', unpack(missing))
