-- Claims for transfers, decided in order. ARGV from 2: space, key, asker of each. Answers `yours`;
-- `kept`, with the owner after a space if that is known; or the owner, whose end the asker now waits
-- for.

local answers = {}
for at = 2, #ARGV, 3 do
  local space, key, asker = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local owner, is_kept = owner_of(space, key)
  local answer = owner
  if is_kept then
    answer = 'kept' .. (owner and ' ' .. owner or '')
  elseif not owner then
    call('HSET', prefix .. 'claims:' .. space, key, asker)
    answer = 'yours'
  elseif owner == asker then
    answer = 'yours'
  else
    call('SADD', prefix .. 'waiters:' .. #space .. ':' .. space .. ':' .. key, asker)
  end
  answers[#answers + 1] = answer
end
return answers
