-- Renews leases where the epoch is still current. ARGV from 2: length, then lane and epoch of each.

local until_ms = text(now_ms() + tonumber(ARGV[2]))
local answers = {}
for at = 3, #ARGV, 2 do
  local renewed = holds(ARGV[at], ARGV[at + 1])
  if renewed then call('HSET', prefix .. 'lane:' .. ARGV[at], 'lease_until_ms', until_ms) end
  answers[#answers + 1] = renewed and 1 or 0
end
return answers
