-- Remembers a final state, unless a later one is there or this one was to be forgotten.
-- KEYS: what is remembered, up to which version nothing is to be.
-- ARGV: the version, the body, the store that it is of, seconds to live.
local version = tonumber(ARGV[1])
local floor = tonumber(redis.call('GET', KEYS[2]) or '-1')
if floor >= version then return 0 end
local held = redis.call('GET', KEYS[1])
if held then
  -- Another writer's is replaced, and what is no object.
  local ok, body = pcall(cjson.decode, held)
  if ok and type(body) == 'table' and body.store == ARGV[3] and type(body.version) == 'number'
    and body.version >= version then
    return 0
  end
end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[4])
return 1
