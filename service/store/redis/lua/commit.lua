-- Move a session from one version to the next with all that belongs to it, or say why not.
-- Begins with prelude.lua: reply, unwritten, confirmed, snapshot, read, integer, now_ms, find_buckets, deadline_of,
-- expire_bucket, remembered, append_values and CHUNK come from there; with sums.lua: sum; with writers.lua: owner_of,
-- line_of and with_writers.
--
-- KEYS  1 session  2 slots  3 log  4 segments  5 played  6.. seen buckets  last probe
-- ARGV  1 numbers of the buckets  2 width of a bucket, ms
--       3 writer  4 expected version  5 new version, or '' to confirm the expected one and write nothing
--       6 checksum: the expected state's last bytes, or ''
--       7 idle expiry from now, ms, 0 to leave it, or -1 for none
--       8 joined fields (kind byte and digest) to look up  9 the least idle deadline, ms
--       10 1 if what is remembered is kept from now on as long as what is new, else 0  11 number of fields with counts
--       12.. these fields, what is added to each, then what is written, in this order: command, number of the key,
--       or 0 for the present bucket, number of arguments, and these; the last: prelude.lua. REPLACE is HSET to the
--       bucket that has the field
-- NOT_FOUND  there is no session
-- OK         written, or confirmed: a snapshot where an earlier sending of this commit wrote it and others have
--            committed since, or nil; then fields `buckets` and `expires_at` (or nil)
-- CONFLICT   snapshot: another version is stored, or the state was changed by hand
-- KNOWN      what is remembered: joined fields of event ids (kind 'e'), their values or nil where all are empty, then
--            field and answer of each key
-- KEYS       the session's field `buckets`: the caller has to call again with the keys of these buckets too
-- Nothing is written except on OK.
--
-- Races closed: two writers on one version (one gets CONFLICT); a commit sent again after its reply was lost,
-- also after others have committed (found by the version of the writer's last commit); an event or key that
-- another writer added meanwhile (looked up and added in one step); expiry and deletion (a session that no
-- longer exists is never written again).

local SESSION, width = KEYS[1], tonumber(ARGV[2])
local writer, expected, version, checksum = ARGV[3], ARGV[4], ARGV[5], ARGV[6]

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
local known = remembered(ARGV[8])
if #known > 0 then
  local events, values, found = {}, {}, { '', false }
  for at = 1, #known, 2 do
    if string.sub(known[at], 1, 1) == 'e' then
      events[#events + 1], values[#values + 1] = known[at], known[at + 1]
      found[2] = found[2] or known[at + 1] ~= '' and values
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

local commands = {
  -- The id of an entry is its position and its time, neither of which goes back.
  XADD = function(log, most, position, ...)
    local before = redis.call('XRANGE', log, position - 1, position - 1)[1]
    local at = integer(math.max(now_ms, before and tonumber(string.match(before[1], '%d+$')) or 0))
    for i, entry in ipairs({ ... }) do
      redis.call('XADD', log, 'MAXLEN', '~', most, integer(position + i - 1) .. '-' .. at, 'e', entry)
    end
  end,
  HSET = function(...) redis.call('HSET', ...) end,
  HDEL = function(...) redis.call('HDEL', ...) end,
  ZADD = function(...) redis.call('ZADD', ...) end,
  ZREM = function(...) redis.call('ZREM', ...) end,
  REPLACE = function(written_now, ...)
    local left = { ... }
    for bucket = 6, #KEYS - 1 do
      local fields, kept, others = {}, {}, {}
      for i = 1, #left, 2 do
        fields[#fields + 1] = left[i]
      end
      local values = #fields > 0 and redis.call('HMGET', KEYS[bucket], unpack(fields)) or {}
      for i = 1, #values do
        local to = values[i] and kept or others
        to[#to + 1], to[#to + 2] = left[2 * i - 1], left[2 * i]
      end
      left = others
      if #kept > 0 then
        redis.call('HSET', KEYS[bucket], unpack(kept))
      end
    end
    if #left > 0 then -- Forgotten meanwhile.
      redis.call('HSET', written_now, unpack(left))
    end
  end,
}
local groups, writes, remembers = tonumber(ARGV[11]), {}, false
local at = 12 + 2 * groups
while at < #ARGV do
  local command, key, last = ARGV[at], KEYS[tonumber(ARGV[at + 1])] or keys[present], at + 2 + ARGV[at + 2]
  remembers = remembers or key == keys[present]
  -- A key of another type fails here, before anything is written, or at XADD, which comes first.
  if string.sub(command, 1, 1) == 'H' then
    redis.call('HMGET', key, '')
  elseif command == 'REPLACE' then
    for bucket = 6, #KEYS - 1 do
      redis.call('HMGET', KEYS[bucket], '')
    end
  elseif string.sub(command, 1, 1) == 'Z' then
    redis.call('ZSCORE', key, '')
  end
  writes[#writes + 1] = { commands[command], key, at + 3, last }
  at = last + 1
end

local fields = {}
local function put(name, value)
  fields[#fields + 1], fields[#fields + 2] = name, value
end
local is_told = owner_of(version) == writer
if not (is_told and owner == writer and stored[3]) then
  put('writers', with_writers(stored[3], owner, stored[1], writer, not is_told and version))
end

-- Counts that somebody changed by hand, to what are no numbers, stay.
local vectors = {}
append_values(vectors, SESSION, 12, 11 + groups)
for i = 1, groups do
  local is_sum, vector = pcall(sum, vectors[i], ARGV[11 + groups + i])
  if is_sum then
    put(ARGV[11 + i], vector)
  end
end

-- What this commit remembers goes to the present bucket.
local permanent, extends, prolongs, listed = ARGV[7] == '-1', ARGV[7] ~= '0', ARGV[10] == '1', stored[5]
if remembers then
  deadlines[present] = math.max(deadlines[present] or 0, deadline_of(present, width))
end
for number, latest in pairs(deadlines) do
  deadlines[number] = prolongs and math.max(latest, now_ms + WINDOW * width) or latest
end
if remembers or extends or prolongs then
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
local extended = extends and math.max(now_ms + ARGV[7], tonumber(ARGV[9]))
local deadline = not permanent and (extended or tonumber(stored[4] or nil)) or nil
if extends and deadline then
  put('expires_at', integer(deadline))
end

-- A server out of memory may refuse a script's first write, and no later one. XADD and HSET are commands that it
-- refuses: so all is written, or nothing.
for _, write in ipairs(writes) do
  write[1](write[2], unpack(ARGV, write[3], write[4]))
end
for first = 1, #fields, CHUNK do
  redis.call('HSET', SESSION, unpack(fields, first, math.min(first + CHUNK - 1, #fields)))
end

if permanent then
  redis.call('HDEL', SESSION, 'expires_at')
end
for i = extends and 1 or 2, (permanent or deadline) and 5 or 0 do
  if permanent then
    redis.call('PERSIST', KEYS[i])
  else
    redis.call('PEXPIREAT', KEYS[i], integer(deadline))
  end
end
for number, latest in pairs(deadlines) do
  if extends or prolongs or remembers and number == present then
    expire_bucket(keys[number], latest, deadline)
  end
end
return reply('OK', false, listed or '', deadline and integer(deadline) or false)
