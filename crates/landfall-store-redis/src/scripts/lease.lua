-- Leases a lane, creating it if it is new. Every success has a new epoch.
--
-- ARGV from 2: lane, rail, holder, length of the lease, the longest length there is. Answers
-- `busy`, its holder and until when; or `yours`.

local lane, rail, holder = ARGV[2], ARGV[3], ARGV[4]
local name = prefix .. 'lane:' .. lane
local now = now_ms()
local held = call('HMGET', name, 'holder', 'lease_until_ms')
if held[1] and held[1] ~= holder then
  local until_ms = tonumber(held[2])
  -- A lease further away than it could last was given before the clock was set back.
  if until_ms > now and until_ms <= now + tonumber(ARGV[6]) then
    return { 'busy', held[1], held[2] }
  end
end
call('HINCRBY', name, 'epoch', 1)
call('HSETNX', name, 'rail', rail)
call('HSET', name, 'holder', holder, 'lease_until_ms', text(now + tonumber(ARGV[5])))
call('ZADD', prefix .. 'lanes', 0, lane)
return { 'yours', call('HGETALL', name) }
