-- Opens an attempt: all or nothing. Checks the server's life, the lease, the marks, the nonce and
-- every member; only then advances the nonce, stores the attempt and moves its members.
--
-- ARGV from 2: lane, epoch, nonce, the nonce after it, the incarnation, the nonce padded for
-- sorting, rail, purpose, hash, base block, base height, last height, time, member ids, bytes; the
-- number of marks, then lane and nonce of each; then the members' moves.

local lane, epoch, nonce, next_nonce, padded = ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[7]
local rail, opened_ms = ARGV[8], ARGV[14]

-- Asked of the server here, not once per connection: one that was a replica for a while keeps its
-- process and its connections, but not its replication id. As `reads.rs` writes it.
local info = call('INFO', 'server', 'replication')
local incarnation = string.match(info, 'run_id:(%x+)')
  .. ':' .. string.match(info, 'master_replid:(%x+)')
if incarnation ~= ARGV[6] then return { 'restarted' } end

local name = prefix .. 'lane:' .. lane
local held = call('HMGET', name, 'epoch', 'holder', 'next_nonce', 'halt_at_ms', 'halt_reason')
if held[1] ~= epoch or not held[2] then return { 'over' } end
local is_fence = ARGV[9] == 'fence'
if held[4] and not is_fence then return { 'halted', held[5] } end

local at = 18
for _ = 1, tonumber(ARGV[17]) do
  local known = call('HGET', prefix .. 'lane:' .. ARGV[at], 'next_nonce')
  if not known or not below(ARGV[at + 1], known) then
    return { 'behind', ARGV[at], ARGV[at + 1] }
  end
  at = at + 2
end
if held[3] ~= nonce and not (is_fence and held[3] and below(held[3], nonce)) then
  return { 'stale nonce' }
end

local steps, founds, seen, stale = {}, {}, {}, {}
while at <= #ARGV do
  local step
  step, at = read_move(at)
  local found = stored(step.id)
  if seen[step.id] or step.from_attempt ~= '' or not is_current(step, found) then
    stale[#stale + 1] = step.id
  end
  seen[step.id] = true
  steps[#steps + 1] = step
  founds[#founds + 1] = found
end
if #stale > 0 then return { 'stale members', stale } end

local id = text(call('HINCRBY', store, 'attempts', 1))
call('HSET', name, 'next_nonce', next_nonce)
call('HSET', prefix .. 'attempt:' .. id, 'rail', rail, 'lane', lane, 'epoch', epoch,
  'nonce', nonce, 'purpose', ARGV[9], 'hash', ARGV[10], 'base_block', ARGV[11],
  'base_height', ARGV[12], 'expires_height', ARGV[13], 'opened_ms', opened_ms,
  'members', ARGV[15], 'bytes', ARGV[16])
-- By nonce. Members of equal scores are sorted as text: exact where a score would not be.
call('ZADD', prefix .. 'lane-attempts:' .. lane, 0, padded .. ':' .. id)
call('ZADD', prefix .. 'lane-open:' .. lane, 0, padded .. ':' .. id)
call('ZADD', prefix .. 'open:' .. rail, opened_ms, id)
local now = text(now_ms())
for i, step in ipairs(steps) do
  write_move(step, founds[i], id, now, {})
end
write_indexes()
return { 'stored', id }
