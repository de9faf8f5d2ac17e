-- Adds a sighting to an open attempt. ARGV from 2: attempt, epoch, sighting. Answers whether.

local name = prefix .. 'attempt:' .. ARGV[2]
local attempt = call('HMGET', name, 'lane', 'decided_ms')
if not attempt[1] or attempt[2] or not holds(attempt[1], ARGV[3]) then return 0 end
call('RPUSH', name .. ':sightings', ARGV[4])
return 1
