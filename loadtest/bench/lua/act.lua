-- Open a slot of DEXP3 with fixed rates and draw an arm.
--
-- KEYS  1 state: slot, outstanding, running p, p of the open slot
-- ARGV  1 number of arms, for the first act  2 a uniform number
-- The arm drawn, from 0, and the slot.

local stored = redis.call('GET', KEYS[1])
local state
if stored then
  state = cmsgpack.unpack(stored)
else
  state = { 0, 0, {} }
  for arm = 1, tonumber(ARGV[1]) do
    state[3][arm] = 1 / ARGV[1]
  end
end
state[1], state[2], state[4] = state[1] + 1, state[2] + 1, state[3]

local left, drawn = tonumber(ARGV[2]), #state[4]
for arm, p in ipairs(state[4]) do
  left = left - p
  if left < 0 then
    drawn = arm
    break
  end
end
redis.call('SET', KEYS[1], cmsgpack.pack(state))
return { drawn - 1, state[1] }
