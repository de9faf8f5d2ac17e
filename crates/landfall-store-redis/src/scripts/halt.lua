-- Halts a lane, whoever holds it. The first reason stays. ARGV from 2: lane, reason. Answers
-- whether there is such a lane.

local name = prefix .. 'lane:' .. ARGV[2]
if call('EXISTS', name) == 0 then return 0 end
if call('HEXISTS', name, 'halt_at_ms') == 0 then
  call('HSET', name, 'halt_reason', ARGV[3], 'halt_at_ms', text(now_ms()))
end
return 1
