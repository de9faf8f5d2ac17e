-- Settles an attempt once, and moves the members that it still carries: all or nothing.
--
-- ARGV from 2: attempt, lane, epoch, fate, time, then moves.

local id, lane, epoch = ARGV[2], ARGV[3], ARGV[4]
local name = prefix .. 'attempt:' .. id
local attempt = call('HMGET', name, 'lane', 'members', 'decided_ms', 'rail', 'nonce')
if not attempt[1] then return { 'unknown' } end
if attempt[1] ~= lane or not holds(lane, epoch) then return { 'fenced' } end
if attempt[3] then return { 'already' } end

-- The first move of each member, and all of them in order.
local steps, first = {}, {}
local at = 7
while at <= #ARGV do
  local step
  step, at = read_move(at)
  steps[#steps + 1] = step
  first[step.id] = first[step.id] or step
end

-- Every member it carries must have a move that fits, or it would be stranded.
local carried = {}
for member in string.gmatch(attempt[2], '%d+') do
  local found = stored(member)
  if found[3] == id then
    local step = first[member]
    if not step or not is_current(step, found) then return { 'stranded', member } end
    carried[member] = found
  end
end

local entry = string.rep('0', 20 - #attempt[5]) .. attempt[5] .. ':' .. id
call('HSET', name, 'fate', ARGV[5], 'decided_ms', ARGV[6])
call('ZREM', prefix .. 'lane-open:' .. lane, entry)
call('ZREM', prefix .. 'open:' .. attempt[4], id)
call('ZADD', prefix .. 'decided:' .. attempt[4], id, id)
local now = text(now_ms())
local moved, released = {}, {}
for _, step in ipairs(steps) do
  local found = carried[step.id]
  if found then
    carried[step.id] = nil
    write_move(step, found, '', now, released)
    moved[#moved + 1] = step.id
  end
end
write_indexes()
return { 'done', moved, released }
