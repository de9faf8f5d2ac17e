-- New transfers: created, or already there.
--
-- ARGV from 2, per transfer: rail, scoped key, receiver, state, due time, time of creation, what
-- was asked, first events. Answers one number each: the new id, or minus the id that has the key.
-- A key, once taken, belongs to its transfer for ever: nothing here expires.

local answers = {}
for at = 2, #ARGV, 8 do
  local rail, key, receiver, state = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local due_ms, created_ms = ARGV[at + 4], ARGV[at + 5]
  local keys = prefix .. 'keys:' .. rail
  local taken = call('HGET', keys, key)
  if taken then
    answers[#answers + 1] = -tonumber(taken)
  else
    local number = call('HINCRBY', store, 'transfers', 1)
    local id = text(number)
    local name = prefix .. 'transfer:' .. id
    call('HSET', keys, key, id)
    call('HSET', name, 'state', state, 'version', first_version, 'attempt', '',
      'due_ms', due_ms, 'updated_ms', created_ms)
    call('RPUSH', name .. ':events', ARGV[at + 6], ARGV[at + 7])
    call('ZADD', prefix .. 'state:' .. state, id, id)
    call('ZADD', prefix .. 'receiver:' .. receiver, id, id)
    if due_ms ~= '' then call('ZADD', prefix .. 'due:' .. state, due_ms, id) end
    answers[#answers + 1] = number
  end
end
return answers
