-- Moves entries to the stage's dead letter stream.
-- KEYS: stream, dead. ARGV: group, how many dead ones are kept, ids.
for index = 3, #ARGV do
  local entry = redis.call('XRANGE', KEYS[1], ARGV[index], ARGV[index])[1]
  if entry then
    local fields = entry[2]
    fields[#fields + 1] = 'entry_id'
    fields[#fields + 1] = ARGV[index]
    redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', unpack(fields))
  end
  redis.call('XACK', KEYS[1], ARGV[1], ARGV[index])
  redis.call('XDEL', KEYS[1], ARGV[index])
end
return #ARGV - 2
