-- The commit that nearly all are: a worker's next version of a session that no other worker has written since, with
-- no key of a request, no entry of the log, nothing else that is rare. The worker knows the session's buckets, since
-- it wrote their list last. Anything else is OTHER, as any error is: nothing is written, and commit.lua is called.
-- Begins with sums.lua: sum comes from there. There is no prelude, as every microsecond counts here.
--
-- KEYS  1 session  2.. its buckets, the present one first  then slots, log, segments, played; of all these without
--       idle expiry only those that are read or written
-- ARGV  1 expected version  2 the expected state's last bytes  3 new version  4 state
--       5 idle expiry from now, ms, or 0, and the least deadline, ms  from when and until when the list of buckets
--         holds, ms; the number of buckets, of fields with counts, of items of event ids (id, value), of records
--         (key, value), of dropped records
--       6.. fields with counts, what is added to each, these items, dropped records, deadlines of buckets, ms
-- OK     written
-- OTHER  nothing was written
--
-- Race closed: any other writer, expiry and deletion, as the version would be another. A full server may refuse the
-- first write and no later one.

local time = redis.call('TIME')
local idle, least, from, till, buckets, groups, events, records, dropped = struct.unpack('>ddddHHHHH', ARGV[5])
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local deadline = math.max(now + idle, least)
local stored = redis.call('HMGET', KEYS[1], 'version', 'state', unpack(ARGV, 6, 5 + groups))
if stored[1] ~= ARGV[1] or string.sub(stored[2], #stored[2] - #ARGV[2] + 1) ~= ARGV[2] or now < from or now >= till then
  return { time[1], time[2], 'OTHER' }
end

local fields = { 'version', ARGV[3], 'state', ARGV[4] }
for i = 1, groups do
  fields[3 + 2 * i], fields[4 + 2 * i] = ARGV[5 + i], sum(stored[2 + i], ARGV[5 + groups + i])
end
local at_events = 6 + 2 * groups
local at_records = at_events + events
local at_dropped = at_records + records
-- Whether the present bucket has a single id is told by the command that adds it: then it has changed nothing, as
-- the id has no value.
for bucket = (events > 2 or events > 0 and ARGV[at_events + 1] ~= '') and 2 or 3, events > 0 and 1 + buckets or 0 do
  local known = redis.call('HMGET', KEYS[bucket], unpack(ARGV, at_events, at_records - 1))
  for i = 1, events, 2 do
    if known[i] then
      return { time[1], time[2], 'OTHER' }
    end
  end
end
if events > 0 and redis.call('HSET', KEYS[2], unpack(ARGV, at_events, at_records - 1)) < events / 2 then
  return { time[1], time[2], 'OTHER' }
end

local slots = KEYS[2 + buckets]
local function fails(...)
  return type(redis.pcall(...)) == 'table'
end
if records > 0 and fails('HSET', slots, unpack(ARGV, at_records, at_dropped - 1))
  or dropped > 0 and fails('HDEL', slots, unpack(ARGV, at_dropped, at_dropped + dropped - 1)) then
  if events > 0 then -- Records are of another type, and the ids were new.
    redis.call('HDEL', KEYS[2], unpack(ARGV, at_events, at_records - 1))
  end
  return { time[1], time[2], 'OTHER' }
end
if idle > 0 then
  fields[#fields + 1], fields[#fields + 2] = 'expires_at', deadline
end
redis.call('HSET', KEYS[1], unpack(fields))
for i = 1, idle > 0 and #KEYS or 0 do
  local latest = i > 1 and ARGV[at_dropped + dropped + i - 2] or nil
  redis.call('PEXPIREAT', KEYS[i], latest and math.min(latest, deadline) or deadline)
end
return { time[1], time[2], 'OK' }
