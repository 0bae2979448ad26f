-- Settle one loss by DEXP3 with fixed rates: one step of its weights, trimmed at the floor.
--
-- KEYS  1 state: slot, outstanding, running p, p of the open slot
-- ARGV  1 arm, from 0  2 loss  3 learning rate  4 loss clip  5 probability floor
-- The slot and the outstanding decisions.

local state = cmsgpack.unpack(redis.call('GET', KEYS[1]))
local p, arm = state[3], ARGV[1] + 1
p[arm] = p[arm] * math.exp(-ARGV[3] * math.min(tonumber(ARGV[4]), ARGV[2] / state[4][arm]))

local function divided()
  local sum = 0
  for each = 1, #p do
    sum = sum + p[each]
  end
  for each = 1, #p do
    p[each] = p[each] / sum
  end
end

divided()
for each = 1, #p do
  p[each] = math.max(p[each], ARGV[5] / #p)
end
divided()
state[2] = state[2] - 1
redis.call('SET', KEYS[1], cmsgpack.pack(state))
return { state[1], state[2] }
