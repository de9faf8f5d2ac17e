-- Sets the first nonce of a lane that has none. ARGV from 2: lane, epoch, the ledger's nonce, the
-- nonce after it. Answers whether.

local name = prefix .. 'lane:' .. ARGV[2]
if not holds(ARGV[2], ARGV[3]) or call('HEXISTS', name, 'next_nonce') == 1 then return 0 end
call('HSET', name, 'base_nonce', ARGV[4], 'next_nonce', ARGV[5])
return 1
