-- Functions of all scripts: scripts.py puts this file before each of them.
--
-- Every reply begins with the server's time (seconds, microseconds) and the outcome's name.
-- The last of ARGV is 'replicated' where the caller then waits until replicas have what led to the reply, else ''.
-- A field that is missing, or a session key of another type, reads as nil: by this the caller notices damage.

local CHUNK = 1000 -- never unpack more at once
local FIELD = 17 -- bytes of a field that stands for an event id or a key: kind byte and digest
local MAX_WRITERS = 128

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

local function read(key, ...)
  local fields = redis.pcall('HMGET', key, ...)
  return fields.err and {} or fields
end

local function snapshot(key)
  local fields = read(key, 'version', 'spec', 'state', 'created_at', 'expires_at')
  for i = 1, 5 do
    fields[i] = fields[i] or false
  end
  return fields
end

-- Buckets: KEYS[3] .. KEYS[9] are those numbered `oldest` .. oldest + 6, the caller's present one is KEYS[8].
-- Index of the bucket that is present by the server's clock; nil where the caller's clock is out by more than
-- the spare buckets cover: it then has to ask again with other keys.
local function present_bucket(oldest, width)
  local index = 3 + math.floor(now_ms / width) - oldest
  return index >= 7 and index <= 9 and index or nil
end

-- A bucket expires a whole window (four widths) after its end, or with its session, whichever is first.
local function expire_bucket(index, oldest, width, deadline)
  local latest = (oldest + index - 3 + 5) * width
  redis.call('PEXPIREAT', KEYS[index], integer(deadline and math.min(deadline, latest) or latest))
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
  for bucket = 3, #fields > 0 and 9 or 0 do
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
