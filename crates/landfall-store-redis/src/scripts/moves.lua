-- Moves: the compare-and-set of one transfer, with its events, its indexes and its claims.
-- Shared by apply, open and settle.
--
-- An empty string stands for "none": of an expected version (any), an attempt, a due time.

-- Reads the move that begins at ARGV[at]; returns it and where the next one begins.
local function read_move(at)
  local step = {
    id = ARGV[at],
    from_state = ARGV[at + 1],
    from_version = ARGV[at + 2],
    from_attempt = ARGV[at + 3],
    state = ARGV[at + 4],
    due_ms = ARGV[at + 5],
    confirmed = ARGV[at + 6],
    stage_retries = ARGV[at + 7],
    retry_count = ARGV[at + 8],
    updated_ms = ARGV[at + 9],
    completed_ms = ARGV[at + 10],
    tx_hash = ARGV[at + 11],
    aside = ARGV[at + 12],
    error = ARGV[at + 13],
    events = ARGV[at + 14],
    claims = {},
  }
  local claims = tonumber(ARGV[at + 15])
  at = at + 16
  for i = 1, claims do
    step.claims[i] = { how = ARGV[at], space = ARGV[at + 1], key = ARGV[at + 2] }
    at = at + 3
  end
  return step, at
end

-- What a move is compared with: state, version, attempt, due time. All false if there is none.
local function stored(id)
  return call('HMGET', prefix .. 'transfer:' .. id, 'state', 'version', 'attempt', 'due_ms')
end

local function is_current(step, found)
  return found[1] == step.from_state
    and (step.from_version == '' or found[2] == step.from_version)
    and found[3] == step.from_attempt
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
      call('ZADD', prefix .. 'due:' .. found[1], now, waiter)
      released[#released + 1] = waiter
    end
  end
end

-- Ends a claim for the mover, if it may. A claim's value is its owner, or `kept`.
local function end_claim(mover, claim, now, released)
  local space = prefix .. 'claims:' .. claim.space
  local owner = call('HGET', space, claim.key)
  if claim.how == 'keep' then
    if owner and owner ~= mover then return end
    call('HSET', space, claim.key, 'kept')
  elseif claim.how == 'release' then
    if owner ~= mover then return end
    call('HDEL', space, claim.key)
  else
    if owner == 'kept' then call('HDEL', space, claim.key) end
    return
  end
  if owner then release_waiters(claim, now, released) end
end

-- Writes a move that was found current, and leaves `attempt` to carry the transfer.
local function write_move(step, found, attempt, now, released)
  local id, state, due_ms = step.id, step.state, step.due_ms
  local name = prefix .. 'transfer:' .. id
  call('HSET', name, 'state', state, 'version', text(found[2] + 1), 'attempt', attempt,
    'due_ms', due_ms, 'confirmed', step.confirmed, 'stage_retries', step.stage_retries,
    'retry_count', step.retry_count, 'updated_ms', step.updated_ms,
    'completed_ms', step.completed_ms, 'tx_hash', step.tx_hash, 'aside', step.aside,
    'error', step.error)
  if step.events ~= '' then call('RPUSH', name .. ':events', step.events) end
  if found[1] ~= state then
    call('ZREM', prefix .. 'state:' .. found[1], id)
    if completed[state] then
      call('HINCRBY', prefix .. 'completed', state, 1)
    else
      call('ZADD', prefix .. 'state:' .. state, id, id)
    end
  end
  if found[4] ~= '' and (due_ms == '' or found[1] ~= state) then
    call('ZREM', prefix .. 'due:' .. found[1], id)
  end
  if due_ms ~= '' then call('ZADD', prefix .. 'due:' .. state, due_ms, id) end
  for _, claim in ipairs(step.claims) do
    end_claim(id, claim, now, released)
  end
end
