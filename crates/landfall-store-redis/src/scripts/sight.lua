-- Adds sightings to an open attempt, and moves those of its members that are as the moves expect
-- them; each stays in the attempt. ARGV from 2: attempt, lane, epoch, the number of sightings, the
-- sightings, then moves. Answers whether.

local id, lane = ARGV[2], ARGV[3]
local name = prefix .. 'attempt:' .. id
local attempt = call('HMGET', name, 'lane', 'decided_ms')
if attempt[1] ~= lane or attempt[2] or not holds(lane, ARGV[4]) then return 0 end
local at = 6 + tonumber(ARGV[5])
for i = 6, at - 1 do call('RPUSH', name .. ':sightings', ARGV[i]) end
local now = text(now_ms())
while at <= #ARGV do
  local step
  step, at = read_move(at)
  local found = stored(step.id)
  if is_current(step, found) then write_move(step, found, id, now, {}) end
end
write_indexes()
return 1
