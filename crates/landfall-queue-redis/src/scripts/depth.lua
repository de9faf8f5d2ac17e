-- Entries that nobody has in hand. KEYS: stream. ARGV: group.
local pending = redis.pcall('XPENDING', KEYS[1], ARGV[1])
-- Before the first pull there is no group, and nothing in hand.
local in_hand = pending.err and 0 or pending[1]
return redis.call('XLEN', KEYS[1]) - in_hand
