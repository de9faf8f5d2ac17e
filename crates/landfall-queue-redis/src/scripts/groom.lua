-- Forgets consumers that are long gone and hold nothing: each start of a process makes a new one.
-- KEYS: stream. ARGV: group, idle time in ms. Returns how many.
local gone = 0
for _, facts in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], ARGV[1])) do
  local consumer = {}
  for index = 1, #facts, 2 do
    consumer[facts[index]] = facts[index + 1]
  end
  if consumer['pending'] == 0 and consumer['idle'] > tonumber(ARGV[2]) then
    redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], consumer['name'])
    gone = gone + 1
  end
end
return gone
