-- New transfers: created, already there, or after something that is claimed.
--
-- ARGV from 2, per transfer: rail, scoped key, receiver, state, due time, facts, what was asked,
-- first events, the number of claims, then space and key of each. Answers per transfer: the new id;
-- minus the id that has the key; or a list: which claim is taken, and its owner, if it has one.
-- A key, once taken, belongs to its transfer for ever: nothing here expires.

local FIXED = 9
local function after(at) return at + FIXED + 2 * tonumber(ARGV[at + FIXED - 1]) end

-- Who has the keys: all of a rail's are asked for at once.
local asked, owners = {}, {}
local at = 2
while at <= #ARGV do
  collect(asked, ARGV[at], ARGV[at + 1])
  at = after(at)
end
for rail, keys in pairs(asked) do
  local found = {}
  for from = 1, #keys, MOST do
    local upto = math.min(from + MOST - 1, #keys)
    local part = call('HMGET', prefix .. 'keys:' .. rail, unpack(keys, from, upto))
    for i, owner in ipairs(part) do
      if owner then found[keys[from + i - 1]] = owner end
    end
  end
  owners[rail] = found
end

-- The first claim of the transfer at ARGV[at] that is taken, counted from 0, and by whom.
local function taken_claim(at)
  for i = at + FIXED, after(at) - 1, 2 do
    local owner, is_kept = owner_of(ARGV[i], ARGV[i + 1])
    if owner or is_kept then return { (i - at - FIXED) / 2, owner or '' } end
  end
end

local answers, taken, joins = {}, {}, {}
at = 2
while at <= #ARGV do
  local rail, key, receiver, state = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local due_ms = ARGV[at + 4]
  local owner = owners[rail][key]
  local claimed = not owner and taken_claim(at)
  if owner then
    answers[#answers + 1] = -tonumber(owner)
  elseif claimed then
    answers[#answers + 1] = claimed
  else
    -- One by one, so that an id that is in use was always counted before.
    local number = call('HINCRBY', store, 'transfers', 1)
    local id = text(number)
    local name = prefix .. 'transfer:' .. id
    call('HSET', name, 'state', state, 'version', first_version, 'attempt', '',
      'due_ms', due_ms, 'facts', ARGV[at + 5])
    call('RPUSH', name .. ':events', ARGV[at + 6], ARGV[at + 7])
    owners[rail][key] = id
    collect(taken, 'keys:' .. rail, key, id)
    collect(joins, 'state:' .. state, id, id)
    collect(joins, 'receiver:' .. receiver, id, id)
    if due_ms ~= '' then collect(joins, 'due:' .. state, due_ms, id) end
    -- At once: the next of the batch may want the same.
    for i = at + FIXED, after(at) - 1, 2 do
      call('HSET', prefix .. 'claims:' .. ARGV[i], ARGV[i + 1], id)
    end
    answers[#answers + 1] = number
  end
  at = after(at)
end
for name, list in pairs(taken) do call_many('HSET', prefix .. name, list) end
for name, list in pairs(joins) do call_many('ZADD', prefix .. name, list) end
return answers
