-- Adds hints to a stage's stream, or to those held back, as far as there is room.
-- KEYS: stream, delayed. ARGV: capacity, delay in ms, transfer ids. Returns how many were taken.
local offered = #ARGV - 2
local held = redis.call('XLEN', KEYS[1]) + redis.call('ZCARD', KEYS[2])
local taken = math.max(0, math.min(offered, tonumber(ARGV[1]) - held))
local delay_ms = tonumber(ARGV[2])
if delay_ms == 0 then
  for index = 3, taken + 2 do
    redis.call('XADD', KEYS[1], '*', 'transfer_id', ARGV[index])
  end
  return taken
end
local time = redis.call('TIME')
local due_ms = time[1] * 1000 + math.floor(time[2] / 1000) + delay_ms
for index = 3, taken + 2 do
  -- Of two hints for one transfer the earlier counts.
  redis.call('ZADD', KEYS[2], 'LT', string.format('%.0f', due_ms), ARGV[index])
end
return taken
