-- Independent moves: each is applied, or stale and without effect.
--
-- ARGV from 2: moves. Answers a list per move: whether it was applied, then whom it released.

local now = text(now_ms())
local answers = {}
local at = 2
while at <= #ARGV do
  local step
  step, at = read_move(at)
  local found = stored(step.id)
  local released = {}
  local applied = 0
  if is_current(step, found) then
    write_move(step, found, found[3], now, released)
    applied = 1
  end
  answers[#answers + 1] = { applied, released }
end
write_indexes()
return answers
