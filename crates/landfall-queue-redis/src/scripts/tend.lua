-- Lets go of the hints that were held back until now, and claims what others left in hand too long.
-- KEYS: stream, delayed. ARGV: group, consumer, visibility in ms, cursor, how many at most.
-- Returns the next cursor, the claimed entries as {id, fields, deliveries}, and the time in ms until
-- the next held back hint (-1: none).
local group, count = ARGV[1], ARGV[5]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local until_ms = string.format('%.0f', now_ms)
local due = redis.call('ZRANGE', KEYS[2], '-inf', until_ms, 'BYSCORE', 'LIMIT', 0, count)
for _, transfer in ipairs(due) do
  redis.call('XADD', KEYS[1], '*', 'transfer_id', transfer)
  redis.call('ZREM', KEYS[2], transfer)
end
local claimed = redis.call('XAUTOCLAIM', KEYS[1], group, ARGV[2], ARGV[3], ARGV[4], 'COUNT', count)
local entries = {}
for _, entry in ipairs(claimed[2]) do
  -- Redis before 7 names deleted entries too, as nothing.
  if entry then
    local pending = redis.call('XPENDING', KEYS[1], group, entry[1], entry[1], 1)
    local deliveries = pending[1] and pending[1][4] or 1
    entries[#entries + 1] = { entry[1], entry[2], deliveries }
  end
end
local wait_ms = -1
local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if first[2] then
  wait_ms = math.max(0, tonumber(first[2]) - now_ms)
end
return { claimed[1], entries, wait_ms }
