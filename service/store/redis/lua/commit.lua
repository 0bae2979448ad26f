-- Move a session from one version to the next with all that belongs to it, or say why not.
-- Begins with prelude.lua: reply, unwritten, confirmed, snapshot, read, integer, now_ms, find_buckets, deadline_of,
-- expire_bucket, remembered, append_values, CHUNK and FIELD come from there; with sums.lua: sum;
-- with writers.lua: owner_of, line_of and with_writers.
--
-- KEYS  1 session  2 slots  3 log  4 segments  5 played  6.. seen buckets  last probe
-- ARGV  1 numbers of the buckets  2 width of a bucket, ms
--       3 writer  4 expected version  5 new version, or '' to confirm the expected one and write nothing
--       6 new state  7 checksum: the expected state's last bytes, or ''  8 idle expiry from now, ms, 0 to leave it,
--       or -1 for none
--       9 joined fields (kind byte and digest) to look up, event ids to remember first  10 bytes of 9 to remember
--       11 new summary  12 'a' to replace about, 's' the specification
--       13 about
--       14 entries that the log keeps, about
--       15 items of answers (field, value, ...)  16 items of records (key, value, ...)  17 records to drop
--       18 number of fields with counts: the last arguments before that of prelude.lua are these fields and, in the
--       same order, what is added to each
--       19 entries of the log
--       20 items of segments (name, record, ...)  21 items of played (slot, name, ...)  22 segments to drop
--       23.. these items, in this order, and after them the specification that is replaced; the last: prelude.lua
-- NOT_FOUND  there is no session
-- OK         written, or confirmed: a snapshot where an earlier sending of this commit wrote it and others have
--            committed since, or nil; then fields `buckets` and `expires_at` (or nil)
-- CONFLICT   snapshot: another version is stored, or the state was changed by hand
-- KNOWN      what is remembered: joined fields of event ids (kind 'e'), then field and answer of each key
-- KEYS       the session's field `buckets`: the caller has to call again with the keys of these buckets too
-- Nothing is written except on OK.
--
-- Races closed: two writers on one version (one gets CONFLICT); a commit sent again after its reply was lost,
-- also after others have committed (found by the version of the writer's last commit); an event or key that
-- another writer added meanwhile (looked up and added in one step); expiry and deletion (a session that no
-- longer exists is never written again).

local SESSION, SLOTS, LOG, SEGMENTS, PLAYED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local width = tonumber(ARGV[2])
local writer, expected, version, state, checksum = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

if redis.call('EXISTS', SESSION) == 0 then
  return confirmed('NOT_FOUND')
end

local stored = read(SESSION, 'version', 'state', 'writers', 'expires_at', 'buckets')

local owner = owner_of(stored[1] or '')
local last = owner == writer and stored[1] or line_of(stored[3] or '', writer)

if version ~= '' and last == version then
  return confirmed('OK', stored[1] ~= version and snapshot(SESSION), stored[5] or '', stored[4])
end
if stored[1] ~= expected or #checksum > 0 and string.sub(stored[2] or '', -#checksum) ~= checksum then
  return unwritten('CONFLICT', snapshot(SESSION))
end
local keys, deadlines, present = find_buckets(ARGV[1], width, stored[5])
if not keys then
  return reply('KEYS', stored[5] or '')
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
  return confirmed('OK', false, stored[5] or '', stored[4])
end

local fields = { 'version', version, 'state', state, 'summary', ARGV[11] }
local function put(name, value)
  fields[#fields + 1], fields[#fields + 2] = name, value
end
local is_told = owner_of(version) == writer
if not (is_told and owner == writer and stored[3]) then
  put('writers', with_writers(stored[3], owner, stored[1], writer, not is_told and version))
end

local answers, records, dropped = tonumber(ARGV[15]), tonumber(ARGV[16]), tonumber(ARGV[17])
local entries, segments, played, gone = tonumber(ARGV[19]), tonumber(ARGV[20]), tonumber(ARGV[21]), tonumber(ARGV[22])
local at_records = 23 + answers
local at_entries = at_records + records + dropped
local at_segments = at_entries + entries
local at_gone = at_segments + segments + played

-- Counts that somebody changed by hand, to what are no numbers, stay.
local groups, vectors = tonumber(ARGV[18]), {}
local at_groups = #ARGV - 2 * groups
append_values(vectors, SESSION, at_groups, at_groups + groups - 1)
for i = 1, groups do
  local is_sum, vector = pcall(sum, vectors[i], ARGV[at_groups + groups - 1 + i])
  if is_sum then
    put(ARGV[at_groups - 1 + i], vector)
  end
end

-- What this commit remembers goes to the present bucket.
local permanent = ARGV[8] == '-1'
local extends, remembers = ARGV[8] ~= '0', ARGV[10] ~= '0' or answers > 0
if remembers then
  deadlines[present] = math.max(deadlines[present] or 0, deadline_of(present, width))
end
local listed = stored[5]
if remembers or extends then
  local buckets = {}
  for number, latest in pairs(deadlines) do
    buckets[#buckets + 1] = number .. '=' .. integer(latest)
  end
  table.sort(buckets)
  listed = table.concat(buckets, ' ')
  if listed ~= stored[5] then
    put('buckets', listed)
  end
end
if string.find(ARGV[12], 'a', 1, true) then
  put('about', ARGV[13])
end
if string.find(ARGV[12], 's', 1, true) then
  put('spec', ARGV[at_gone + gone])
end
local deadline = not permanent and (extends and now_ms + ARGV[8] or tonumber(stored[4] or nil)) or nil
if extends and deadline then
  put('expires_at', integer(deadline))
end

-- A key of another type fails here, before anything is written.
if records + dropped > 0 then
  redis.call('HMGET', SLOTS, '')
end
if segments + gone > 0 then
  redis.call('HMGET', SEGMENTS, '')
  redis.call('ZSCORE', PLAYED, '')
end

-- A server out of memory may refuse a script's first write, and no later one. XADD and HSET are commands that it
-- refuses: so all is written, or nothing. XADD comes first, as an access list may lack it.
for at = at_entries, at_entries + entries - 1 do
  redis.call('XADD', LOG, 'MAXLEN', '~', ARGV[14], '*', 'e', ARGV[at])
end
for at = 1, #fields, CHUNK do
  redis.call('HSET', SESSION, unpack(fields, at, math.min(at + CHUNK - 1, #fields)))
end

local function hset(...) redis.call('HSET', ...) end
local function hdel(...) redis.call('HDEL', ...) end
local function zadd(...) redis.call('ZADD', ...) end
local function zrem(...) redis.call('ZREM', ...) end
local function each_chunk(command, key, first, count)
  for at = first, first + count - 1, CHUNK do
    command(key, unpack(ARGV, at, math.min(at + CHUNK, first + count) - 1))
  end
end

local function put_events(fields)
  for at = 1, #fields, CHUNK * FIELD / 2 do
    local items = {}
    for one = at, math.min(#fields, at + CHUNK * FIELD / 2 - 1), FIELD do
      items[#items + 1] = string.sub(fields, one, one + FIELD - 1)
      items[#items + 1] = ''
    end
    redis.call('HSET', keys[present], unpack(items))
  end
end

put_events(string.sub(ARGV[9], 1, tonumber(ARGV[10])))
each_chunk(hset, keys[present], 23, answers)
each_chunk(hset, SLOTS, at_records, records)
each_chunk(hdel, SLOTS, at_records + records, dropped)
each_chunk(hset, SEGMENTS, at_segments, segments)
each_chunk(zadd, PLAYED, at_segments + segments, played)
each_chunk(hdel, SEGMENTS, at_gone, gone)
each_chunk(zrem, PLAYED, at_gone, gone)

if permanent then
  redis.call('HDEL', SESSION, 'expires_at')
  for _, key in ipairs({ SESSION, SLOTS, LOG, SEGMENTS, PLAYED }) do
    redis.call('PERSIST', key)
  end
elseif extends then
  redis.call('PEXPIREAT', SESSION, integer(deadline))
end
if deadline then
  redis.call('PEXPIREAT', SLOTS, integer(deadline))
  redis.call('PEXPIREAT', LOG, integer(deadline))
  redis.call('PEXPIREAT', SEGMENTS, integer(deadline))
  redis.call('PEXPIREAT', PLAYED, integer(deadline))
end
for number, latest in pairs(deadlines) do
  if extends or remembers and number == present then
    expire_bucket(keys[number], latest, deadline)
  end
end
return reply('OK', false, listed or '', deadline and integer(deadline) or false)
