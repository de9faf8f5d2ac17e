-- Opens attempts, in order, each all or nothing, as those before it have left the store. Checks the
-- server's life, the lease, the marks, the nonce and every member; only then advances the nonce,
-- stores the attempt and moves its members.
--
-- ARGV from 2, of each attempt: lane, epoch, nonce, the nonce after it, the nonce padded for
-- sorting, rail, purpose, hash, base block, base height, last height, time, member ids, bytes, the
-- incarnation; the number of marks, then lane, nonce and signatures of each; the number of members,
-- then their moves. Answers one list each.

local now = text(now_ms())

local function read_opening(at)
  local open = {
    lane = ARGV[at], epoch = ARGV[at + 1], nonce = ARGV[at + 2], next_nonce = ARGV[at + 3],
    padded = ARGV[at + 4], rail = ARGV[at + 5], purpose = ARGV[at + 6], hash = ARGV[at + 7],
    base_block = ARGV[at + 8], base_height = ARGV[at + 9], expires_height = ARGV[at + 10],
    opened_ms = ARGV[at + 11], members = ARGV[at + 12], bytes = ARGV[at + 13], life = ARGV[at + 14],
    steps = {},
  }
  open.marks, at = read_marks(at + 15)
  local members = tonumber(ARGV[at])
  at = at + 1
  for i = 1, members do open.steps[i], at = read_move(at) end
  return open, at
end

local function refusal(open, founds)
  local is_fence = open.purpose == 'fence'
  local refused = barred(open.life, open.lane, open.epoch, is_fence, open.marks)
  if refused then return refused end
  local next_nonce = reached(open.lane).next_nonce
  if next_nonce ~= open.nonce
    and not (is_fence and next_nonce and below(next_nonce, open.nonce)) then
    return { 'stale nonce' }
  end
  local seen, stale = {}, {}
  for i, step in ipairs(open.steps) do
    local found = stored(step.id)
    if seen[step.id] or step.from_attempt ~= '' or not is_current(step, found) then
      stale[#stale + 1] = step.id
    end
    seen[step.id] = true
    founds[i] = found
  end
  if #stale > 0 then return { 'stale members', stale } end
end

local function store_attempt(open, founds)
  local id = text(call('HINCRBY', store, 'attempts', 1))
  local lane, entry = open.lane, open.padded .. ':' .. id
  local seq = sign(lane)
  call('HSET', prefix .. 'lane:' .. lane, 'next_nonce', open.next_nonce)
  reached(lane).next_nonce = open.next_nonce
  call('HSET', prefix .. 'attempt:' .. id, 'rail', open.rail, 'lane', lane, 'epoch', open.epoch,
    'nonce', open.nonce, 'purpose', open.purpose, 'hash', open.hash, 'base_block', open.base_block,
    'base_height', open.base_height, 'expires_height', open.expires_height,
    'opened_ms', open.opened_ms, 'members', open.members, 'bytes', open.bytes, 'seq', seq)
  -- By nonce. Members of equal scores are sorted as text: exact where a score would not be.
  call('ZADD', prefix .. 'lane-attempts:' .. lane, 0, entry)
  call('ZADD', prefix .. 'lane-open:' .. lane, 0, entry)
  call('ZADD', prefix .. 'open:' .. open.rail, open.opened_ms, id)
  call('HSET', prefix .. 'hashes:' .. open.rail, open.hash, id)
  for i, step in ipairs(open.steps) do write_move(step, founds[i], id, now, {}) end
  return { 'stored', id, seq }
end

local answers = {}
local at = 2
while at <= #ARGV do
  local open
  open, at = read_opening(at)
  local founds = {}
  answers[#answers + 1] = refusal(open, founds) or store_attempt(open, founds)
end
write_indexes()
return answers
