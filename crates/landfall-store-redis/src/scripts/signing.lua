-- The open rule, as far as an opening and a variant share it: `landfall_core::opening` in Lua, held
-- to it by the conformance suite. Shared by open and vary.

-- Asked of the server here, not once per connection: one that was a replica for a while keeps its
-- process and its connections, but not its replication id. As `reads.rs` writes it.
local info = call('INFO', 'server', 'replication')
local incarnation = string.match(info, 'run_id:(%x+)')
  .. ':' .. string.match(info, 'master_replid:(%x+)')

-- Next nonce and count of signatures of the lanes that were asked about, as this script has left
-- them.
local lanes = {}
local function reached(lane)
  local known = lanes[lane]
  if not known then
    local found = call('HMGET', prefix .. 'lane:' .. lane, 'next_nonce', 'seq')
    known = { next_nonce = found[1], seq = found[2] or '0' }
    lanes[lane] = known
  end
  return known
end

-- Reads the marks that begin at ARGV[at], their number first; returns them and what is after them.
local function read_marks(at)
  local marks = {}
  for i = 1, tonumber(ARGV[at]) do
    local first = at + 3 * i - 2
    marks[i] = { lane = ARGV[first], nonce = ARGV[first + 1], seq = ARGV[first + 2] }
  end
  return marks, at + 3 * #marks + 1
end

-- Why nothing may be signed on the lane by whoever asks; nothing if it may.
local function barred(life, lane, epoch, passes_halt, marks)
  if incarnation ~= life then return { 'restarted' } end
  local held = call('HMGET', prefix .. 'lane:' .. lane, 'epoch', 'holder', 'halt_at_ms',
    'halt_reason')
  if held[1] ~= epoch or not held[2] then return { 'over' } end
  if held[3] and not passes_halt then return { 'halted', held[4] } end
  for _, mark in ipairs(marks) do
    local known = reached(mark.lane)
    if not known.next_nonce or not below(mark.nonce, known.next_nonce) then
      return { 'behind', 'nonce ' .. mark.nonce, mark.lane }
    elseif below(known.seq, mark.seq) then
      return { 'behind', 'signature ' .. mark.seq, mark.lane }
    end
  end
end

-- Counts one more signature of the lane; returns which it is.
local function sign(lane)
  local seq = text(call('HINCRBY', prefix .. 'lane:' .. lane, 'seq', 1))
  reached(lane).seq = seq
  return seq
end
