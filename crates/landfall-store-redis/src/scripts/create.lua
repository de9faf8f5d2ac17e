-- Makes the environment if there is none. KEYS[1] is its `store` hash; ARGV[1] an identity drawn
-- for the case that it is new, ARGV[2] the schema. Answers the identity and the schema it has, or
-- nothing if what is there is only a part of a store.

local store = KEYS[1]
local prefix = string.sub(store, 1, -1 - #'store')
local found = redis.call('HMGET', store, 'identity', 'schema')
if found[1] and found[2] then return found end
-- Ids that start anew above old records would give them to others.
if redis.call('EXISTS', store, prefix .. 'transfer:1', prefix .. 'attempt:1',
  prefix .. 'lanes') > 0 then
  return {}
end
redis.call('HSET', store, 'identity', ARGV[1], 'schema', ARGV[2])
return { ARGV[1], ARGV[2] }
