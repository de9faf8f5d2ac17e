-- Brings the layout from schema 1 to 2: every attempt is found by its hash. A part at a time, so
-- that nobody waits for long; how far it has come is kept, so that whoever comes next goes on.
-- ARGV from 2: how many attempts to take. Answers whether nothing is left to do.

if call('HGET', store, 'schema') ~= '1' then return 1 end
local found = call('HMGET', store, 'indexed', 'attempts')
local from, last = tonumber(found[1] or 0), tonumber(found[2] or 0)
local upto = math.min(from + tonumber(ARGV[2]), last)
local joins = {}
for number = from + 1, upto do
  local id = text(number)
  local attempt = call('HMGET', prefix .. 'attempt:' .. id, 'rail', 'hash')
  if attempt[1] and attempt[2] then collect(joins, 'hashes:' .. attempt[1], attempt[2], id) end
end
for name, list in pairs(joins) do call_many('HSET', prefix .. name, list) end
if upto < last then
  call('HSET', store, 'indexed', text(upto))
  return 0
end
call('HSET', store, 'schema', '2')
call('HDEL', store, 'indexed')
return 1
