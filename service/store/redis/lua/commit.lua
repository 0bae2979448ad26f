-- Move a session from one version to the next with all that belongs to it, or say why not.
-- Begins with prelude.lua: reply, unwritten, confirmed, snapshot, read, integer, now_ms, present_bucket,
-- expire_bucket, remembered, CHUNK and FIELD come from there.
--
-- KEYS  1 session  2 slots  3-9 seen buckets  10 probe
-- ARGV  1 number of KEYS[3]  2 bucket width, ms
--       3 writer  4 expected version  5 new version, or '' to confirm the expected one and write nothing
--       6 new state  7 checksum: the expected state's last bytes, or ''  8 idle expiry from now, ms, or 0 to leave it
--       9 joined fields (kind byte and digest) to look up, event ids to remember first  10 bytes of 9 to remember
--       11 items of answers (field, value, ...)  12 items of records (key, value, ...)  13 records to drop
--       14.. these items, in this order
-- NOT_FOUND  there is no session
-- OK         written, or confirmed; with a snapshot where an earlier sending of this commit wrote it and others
--            have committed since
-- CONFLICT   snapshot: another version is stored, or the state was changed by hand
-- KNOWN      what is remembered: joined fields of event ids (kind 'e'), then field and answer of each key
-- CLOCK      the caller's buckets don't hold the present time
-- Nothing is written except on OK.
--
-- Races closed: two writers on one version (one gets CONFLICT); a commit sent again after its reply was lost,
-- also after others have committed (found by the version of the writer's last commit); an event or key that
-- another writer added meanwhile (looked up and added in one step); expiry and deletion (a session that no
-- longer exists is never written again).

local SESSION, SLOTS = KEYS[1], KEYS[2]
local oldest, width = tonumber(ARGV[1]), tonumber(ARGV[2])
local writer, expected, version, state, checksum = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

local present = present_bucket(oldest, width)
if not present then
  return reply('CLOCK')
end
if redis.call('EXISTS', SESSION) == 0 then
  return confirmed('NOT_FOUND')
end

local stored = read(SESSION, 'version', 'state', 'writers', 'expires_at')

-- `writers` has a line for each writer: its name and the version its last commit made, the longest silent first.
local writers = stored[3] or ''
local from = string.find(writers, '\n' .. writer .. ' ', 1, true)
local upto = from and string.find(writers, '\n', from + 1, true) or #writers + 1
local last = from and string.sub(writers, from + #writer + 2, upto - 1) or false

if version ~= '' and last == version then
  if stored[1] == version then
    return confirmed('OK')
  end
  return confirmed('OK', snapshot(SESSION))
end
if stored[1] ~= expected or #checksum > 0 and string.sub(stored[2] or '', -#checksum) ~= checksum then
  return unwritten('CONFLICT', snapshot(SESSION))
end
local known = remembered(ARGV[9])
if #known > 0 then
  local events, found = {}, { '' }
  for at = 1, #known, 2 do
    if string.sub(known[at], 1, 1) == 'e' then
      events[#events + 1] = known[at]
    else
      found[#found + 1], found[#found + 2] = known[at], known[at + 1]
    end
  end
  found[1] = table.concat(events)
  return unwritten('KNOWN', found)
end
if version == '' then
  return confirmed('OK')
end

if from then
  writers = string.sub(writers, 1, from - 1) .. string.sub(writers, upto)
end
writers = writers .. '\n' .. writer .. ' ' .. version
if not from and select(2, string.gsub(writers, '\n', '\n')) > MAX_WRITERS then
  writers = string.sub(writers, string.find(writers, '\n', 2, true), -1)
end

-- A server out of memory may refuse a script's first write, and no later one. HSET is a command that it refuses: so
-- all is written, or nothing.
redis.call('HSET', SESSION, 'version', version, 'state', state, 'writers', writers)

local function put(key, first, count)
  for at = first, first + count - 1, CHUNK do
    redis.call('HSET', key, unpack(ARGV, at, math.min(at + CHUNK, first + count) - 1))
  end
end

local function put_events(fields)
  for at = 1, #fields, CHUNK * FIELD / 2 do
    local items = {}
    for one = at, math.min(#fields, at + CHUNK * FIELD / 2 - 1), FIELD do
      items[#items + 1] = string.sub(fields, one, one + FIELD - 1)
      items[#items + 1] = ''
    end
    redis.call('HSET', KEYS[present], unpack(items))
  end
end

local answers, records, dropped = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13])
put_events(string.sub(ARGV[9], 1, tonumber(ARGV[10])))
put(KEYS[present], 14, answers)
put(SLOTS, 14 + answers, records)
for at = 14 + answers + records, 13 + answers + records + dropped, CHUNK do
  redis.call('HDEL', SLOTS, unpack(ARGV, at, math.min(at + CHUNK - 1, 13 + answers + records + dropped)))
end

local extends = ARGV[8] ~= '0'
local deadline = extends and now_ms + ARGV[8] or tonumber(stored[4] or nil)
if extends then
  redis.call('HSET', SESSION, 'expires_at', integer(deadline))
  redis.call('PEXPIREAT', SESSION, integer(deadline))
end
if deadline then
  redis.call('PEXPIREAT', SLOTS, integer(deadline))
end
for bucket = extends and 3 or present, extends and 9 or present do
  expire_bucket(bucket, oldest, width, deadline)
end
return reply('OK')
