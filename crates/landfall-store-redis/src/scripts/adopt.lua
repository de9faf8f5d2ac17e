-- Ends a halt, and whoever held the lane, by an operator's word. Nonces and the count of signatures
-- never fall. ARGV from 2:
-- lane, the ledger's nonce, the nonce after it. Answers whether there is such a lane.

local name = prefix .. 'lane:' .. ARGV[2]
if call('EXISTS', name) == 0 then return 0 end
local known = call('HMGET', name, 'base_nonce', 'next_nonce', 'seq')
call('HDEL', name, 'halt_reason', 'halt_at_ms', 'holder')
call('HSET', name, 'lease_until_ms', '0')
local epoch, now = text(call('HINCRBY', name, 'epoch', 1)), text(now_ms())
if below(epoch, now) then call('HSET', name, 'epoch', now) end
if not known[3] or below(known[3], now) then call('HSET', name, 'seq', now) end
if not known[1] or below(known[1], ARGV[3]) then call('HSET', name, 'base_nonce', ARGV[3]) end
if not known[2] or below(known[2], ARGV[4]) then call('HSET', name, 'next_nonce', ARGV[4]) end
return 1
