-- New transfers: created, or already there.
--
-- ARGV from 2, per transfer: rail, scoped key, receiver, state, due time, facts, what was asked,
-- first events. Answers one number each: the new id, or minus the id that has the key.
-- A key, once taken, belongs to its transfer for ever: nothing here expires.

local JOB = 8

-- Who has the keys: all of a rail's are asked for at once.
local asked, owners = {}, {}
for at = 2, #ARGV, JOB do collect(asked, ARGV[at], ARGV[at + 1]) end
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

local answers, taken, joins = {}, {}, {}
for at = 2, #ARGV, JOB do
  local rail, key, receiver, state = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local due_ms = ARGV[at + 4]
  local owner = owners[rail][key]
  if owner then
    answers[#answers + 1] = -tonumber(owner)
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
    answers[#answers + 1] = number
  end
end
for name, list in pairs(taken) do call_many('HSET', prefix .. name, list) end
for name, list in pairs(joins) do call_many('ZADD', prefix .. name, list) end
return answers
