-- Takes what is due, oldest first, and pushes it on, so that nobody else takes it meanwhile.
--
-- ARGV from 2: limit, push, horizon, then the states of the stage. Answers ids.

local limit, push, horizon = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now = now_ms()
local due = {}
local function gather(state, from, to)
  local name = prefix .. 'due:' .. state
  local found = call('ZRANGEBYSCORE', name, from, to, 'WITHSCORES', 'LIMIT', 0, limit)
  for i = 1, #found, 2 do
    due[#due + 1] = { id = found[i], at = tonumber(found[i + 1]), state = state }
  end
end
for i = 5, #ARGV do
  gather(ARGV[i], '-inf', text(now))
  -- A due time further away than the longest backoff is a mistake, and counts as due.
  gather(ARGV[i], '(' .. text(now + horizon), '+inf')
end
table.sort(due, function(a, b)
  if a.at ~= b.at then return a.at < b.at end
  return below(a.id, b.id)
end)

local pushed = text(now + push)
local ids, joins = {}, {}
for i = 1, math.min(limit, #due) do
  local id = due[i].id
  call('HSET', prefix .. 'transfer:' .. id, 'due_ms', pushed)
  collect(joins, 'due:' .. due[i].state, pushed, id)
  ids[i] = id
end
for name, list in pairs(joins) do call_many('ZADD', prefix .. name, list) end
return ids
