-- Moves: the compare-and-set of one transfer, with its events, its indexes and its claims.
-- Shared by apply, open, sight and settle, each of which ends with `write_indexes`.
--
-- An empty string stands for "none": of an expected version (any), an attempt, a due time.

-- Reads the move that begins at ARGV[at]; returns it and where the next one begins.
local function read_move(at)
  local step = {
    id = ARGV[at],
    from_state = ARGV[at + 1],
    from_version = ARGV[at + 2],
    from_updated_ms = ARGV[at + 3],
    from_attempt = ARGV[at + 4],
    state = ARGV[at + 5],
    due_ms = ARGV[at + 6],
    facts = ARGV[at + 7],
    tx_hash = ARGV[at + 8],
    trouble = ARGV[at + 9],
    events = ARGV[at + 10],
  }
  local claims = tonumber(ARGV[at + 11])
  at = at + 12
  if claims > 0 then
    step.claims = {}
    for i = 1, claims do
      step.claims[i] = { how = ARGV[at], space = ARGV[at + 1], key = ARGV[at + 2] }
      at = at + 3
    end
  end
  return step, at
end

-- What a move is compared with: state, version, attempt, due time, facts. All false if there is
-- none.
local function stored(id)
  return call('HMGET', prefix .. 'transfer:' .. id, 'state', 'version', 'attempt', 'due_ms', 'facts')
end

-- The time is the fourth of the facts.
local function is_version(step, found)
  return step.from_version == '' or found[2] == step.from_version
    and string.match(found[5], '^%d+ %d+ %d+ (%d+) ') == step.from_updated_ms
end

local function is_current(step, found)
  return found[1] == step.from_state and is_version(step, found)
    and found[3] == step.from_attempt
end

-- State and due time of the transfers that this script changes: as the indexes still have them,
-- and as they are now. The indexes are written together at the end: one command for a hundred
-- transfers costs far less than a hundred commands.
local indexed, current = {}, {}

local function note_index(id, found, state, due_ms)
  if not indexed[id] then indexed[id] = { found[1], found[4] } end
  current[id] = { state, due_ms }
end

local function write_indexes()
  local leave, join, counts = {}, {}, {}
  for id, before in pairs(indexed) do
    local state, due_ms = before[1], before[2]
    local new_state, new_due_ms = current[id][1], current[id][2]
    if state ~= new_state then
      collect(leave, 'state:' .. state, id)
      if completed[new_state] then
        counts[new_state] = (counts[new_state] or 0) + 1
      else
        collect(join, 'state:' .. new_state, id, id)
      end
    end
    if due_ms ~= '' and (new_due_ms == '' or state ~= new_state) then
      collect(leave, 'due:' .. state, id)
    end
    if new_due_ms ~= '' and (due_ms ~= new_due_ms or state ~= new_state) then
      collect(join, 'due:' .. new_state, new_due_ms, id)
    end
  end
  for name, list in pairs(leave) do call_many('ZREM', prefix .. name, list) end
  for name, list in pairs(join) do call_many('ZADD', prefix .. name, list) end
  for state, count in pairs(counts) do call('HINCRBY', prefix .. 'completed', state, count) end
end

-- Makes those due who wait for a claim that ended, unless they are final or carried and so wait
-- for nothing.
local function release_waiters(claim, now, released)
  local name = prefix .. 'waiters:' .. #claim.space .. ':' .. claim.space .. ':' .. claim.key
  local waiters = call('SMEMBERS', name)
  if #waiters == 0 then return end
  call('DEL', name)
  table.sort(waiters, below)
  for _, waiter in ipairs(waiters) do
    local found = stored(waiter)
    if found[1] and found[3] == '' and not final[found[1]] then
      call('HSET', prefix .. 'transfer:' .. waiter, 'due_ms', now)
      note_index(waiter, found, found[1], now)
      released[#released + 1] = waiter
    end
  end
end

-- Ends a claim for the mover, if it may. A claim's value is its owner, or `kept`.
local function end_claim(mover, claim, now, released)
  local space, keepers = prefix .. 'claims:' .. claim.space, prefix .. 'kept:' .. claim.space
  local owner = call('HGET', space, claim.key)
  if claim.how == 'keep' then
    if owner and owner ~= mover then return end
    call('HSET', space, claim.key, 'kept')
    if owner then call('HSET', keepers, claim.key, mover) end
  elseif claim.how == 'release' then
    if owner ~= mover then return end
    call('HDEL', space, claim.key)
  else
    if owner == 'kept' then
      call('HDEL', space, claim.key)
      call('HDEL', keepers, claim.key)
    end
    return
  end
  if owner then release_waiters(claim, now, released) end
end

-- Writes a move that was found current, and leaves `attempt` to carry the transfer.
local function write_move(step, found, attempt, now, released)
  local id, state, due_ms = step.id, step.state, step.due_ms
  local name = prefix .. 'transfer:' .. id
  call('HSET', name, 'state', state, 'version', text(found[2] + 1), 'attempt', attempt,
    'due_ms', due_ms, 'facts', step.facts, 'tx_hash', step.tx_hash, 'trouble', step.trouble)
  if step.events ~= '' then call('RPUSH', name .. ':events', step.events) end
  note_index(id, found, state, due_ms)
  if step.claims then
    for _, claim in ipairs(step.claims) do end_claim(id, claim, now, released) end
  end
end
