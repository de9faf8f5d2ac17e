-- Gives leases back where the epoch is still current. ARGV from 2: lane and epoch of each.

for at = 2, #ARGV, 2 do
  if holds(ARGV[at], ARGV[at + 1]) then
    local name = prefix .. 'lane:' .. ARGV[at]
    call('HDEL', name, 'holder')
    call('HSET', name, 'lease_until_ms', '0')
  end
end
return 1
