-- Claims for transfers, decided in order. ARGV from 2: space, key, asker of each. Answers `yours`,
-- `kept`, or the owner, whose end the asker now waits for.

local answers = {}
for at = 2, #ARGV, 3 do
  local space, key, asker = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local name = prefix .. 'claims:' .. space
  local owner = call('HGET', name, key)
  local answer = owner
  if not owner then
    call('HSET', name, key, asker)
    answer = 'yours'
  elseif owner == asker then
    answer = 'yours'
  elseif owner ~= 'kept' then
    call('SADD', prefix .. 'waiters:' .. #space .. ':' .. space .. ':' .. key, asker)
  end
  answers[#answers + 1] = answer
end
return answers
