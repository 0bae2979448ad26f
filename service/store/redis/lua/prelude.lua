-- Functions of all scripts: scripts.py puts this file before each of them.
--
-- Every reply begins with the server's time (seconds, microseconds) and the outcome's name.
-- The last of ARGV is 'replicated' where the caller then waits until replicas have what led to the reply, else ''.
-- A field that is missing, or a session key of another type, reads as nil: by this the caller notices damage.

local CHUNK = 1000 -- never unpack more at once
local FIELD = 17 -- bytes of a field that stands for an event id or a key: kind byte and digest
local MAX_WRITERS = 128
local BEGUN, COMPLETE = '\0begun', '\0complete' -- no ids of sessions; they mark the state of the index
local MAX_BUCKETS_AHEAD = 8 -- two windows
local WINDOW = 4 -- buckets
local CLOCK_MS = 5 -- for which a script may have run

local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)

local function reply(outcome, ...)
  return {time[1], time[2], outcome, ...}
end

-- An answer for which nothing was written. A replica may be behind, or empty while it syncs, and must not answer:
-- deleting the last key, which never exists, changes nothing and fails there.
local function unwritten(outcome, ...)
  redis.call('UNLINK', KEYS[#KEYS])
  return reply(outcome, ...)
end

-- The same where the caller acts on the answer and replicas must have the data that it speaks of. On Valkey WAIT
-- covers only the connection's own last write, so there has to be one: a key that exists within this script alone.
-- A full server lets it pass, as it comes after another write command.
local function confirmed(outcome, ...)
  local answer = unwritten(outcome, ...)
  if ARGV[#ARGV] == 'replicated' then
    redis.call('SET', KEYS[#KEYS], '')
    redis.call('UNLINK', KEYS[#KEYS])
  end
  return answer
end

local function integer(number)
  return string.format('%.0f', number)
end

-- The values of named fields: false where one is missing, and everywhere if the key is of another type.
local function read(key, ...)
  local fields = redis.pcall('HMGET', key, ...)
  if not fields.err then
    return fields
  end
  local missing = {}
  for i = 1, select('#', ...) do
    missing[i] = false
  end
  return missing
end

-- Append the values of the fields ARGV[first] to ARGV[last].
local function append_values(values, key, first, last)
  for at = first, last, CHUNK do
    local found = redis.call('HMGET', key, unpack(ARGV, at, math.min(at + CHUNK - 1, last)))
    for i = 1, #found do
      values[#values + 1] = found[i]
    end
  end
end

local function snapshot(key)
  return read(key, 'version', 'spec', 'state', 'created_at', 'expires_at')
end

-- What lists show of a session: its key, then version (nil where there is none), created_at, expires_at, about and
-- the head of the state, whose second and third byte say how long it is.
local function listed_fields(key)
  local found = { key, unpack(read(key, 'version', 'created_at', 'expires_at', 'about', 'state')) }
  local low, high = string.byte(found[6] or '', 2, 3)
  found[2] = found[2] or redis.call('EXISTS', key) == 1 and ''
  found[6] = high and string.sub(found[6], 1, low + 256 * high) or ''
  return found
end

-- Buckets hold what a session remembers. Their keys are KEYS[6] up to the last but one, `numbers` has their numbers in
-- this order. Field `buckets` of the session lists, as number=deadline, those that were written: which of them are
-- looked up depends on no setting and no clock of the caller.
--
-- Returns the key of each number, the deadlines by number, and the number of the bucket to write to; or nil where keys
-- are missing: the caller then has to ask again with the keys of those listed, and of the present one.
local function find_buckets(numbers, width, listed)
  local keys, deadlines, index, missing = {}, {}, 6, false
  for number in string.gmatch(numbers, '%d+') do
    keys[number], index = KEYS[index], index + 1
  end
  local present = math.floor(now_ms / width)
  local newest = present
  for number, deadline in string.gmatch(listed or '', '(%d+)=(%d+)') do
    if tonumber(deadline) > now_ms then
      deadlines[number] = tonumber(deadline)
      missing = missing or not keys[number]
      -- After a clock was set back it may be wrong or right: the later of the buckets is remembered long enough.
      if tonumber(number) > newest and tonumber(number) <= present + MAX_BUCKETS_AHEAD then
        newest = tonumber(number)
      end
    end
  end
  newest = integer(newest)
  if missing or not keys[newest] then
    return nil
  end
  return keys, deadlines, newest
end

-- The end of a bucket and a window and a quarter (five widths) after it: what was remembered is known for a window,
-- and for some time longer if the clock is set forward.
local function deadline_of(number, width)
  return (tonumber(number) + 6) * width
end

-- Let a bucket expire at its own deadline, or with its session, whichever is first.
local function expire_bucket(key, latest, session_deadline)
  local deadline = session_deadline and math.min(session_deadline, latest) or latest
  -- Its own deadline is mostly set already, and then need not be logged again.
  if deadline < latest or math.abs(now_ms + redis.call('PTTL', key) - latest) > CLOCK_MS then
    redis.call('PEXPIREAT', key, integer(deadline))
  end
end

-- Let a key of reminders live until `kept` ms after its latest note.
local function keep(key, at, kept)
  local left = at - now_ms + kept
  if left > redis.call('PTTL', key) then
    redis.call('PEXPIRE', key, integer(math.max(left, 1)))
  end
end

local function split(fields, from)
  local chunk = {}
  for at = from, math.min(#fields, from + CHUNK * FIELD - 1), FIELD do
    chunk[#chunk + 1] = string.sub(fields, at, at + FIELD - 1)
  end
  return chunk
end

-- field, value, ... of those of the joined `fields` that some bucket remembers.
local function remembered(fields)
  local found = {}
  for bucket = 6, #fields > 0 and #KEYS - 1 or 0 do
    for from = 1, redis.call('EXISTS', KEYS[bucket]) == 1 and #fields or 0, CHUNK * FIELD do
      local chunk = split(fields, from)
      local values = redis.call('HMGET', KEYS[bucket], unpack(chunk))
      for i = 1, #chunk do
        if values[i] then
          found[#found + 1] = chunk[i]
          found[#found + 1] = values[i]
        end
      end
    end
  end
  return found
end
