-- Adds other bytes to an open attempt: all or nothing.
--
-- ARGV from 2: the incarnation, attempt, lane, epoch, number, whether it cancels, hash, what it is,
-- bytes; the number of marks, then lane, nonce and signatures of each.

local id, lane, epoch, number = ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local refused = barred(ARGV[2], lane, epoch, ARGV[7] == '1', (read_marks(11)))
if refused then return refused end

local name = prefix .. 'attempt:' .. id
local attempt = call('HMGET', name, 'lane', 'decided_ms', 'variants', 'rail')
if not attempt[1] then return { 'unknown' } end
if attempt[1] ~= lane then return { 'elsewhere' } end
if attempt[2] then return { 'decided' } end
if tonumber(number) ~= (attempt[3] or 0) + 1 then return { 'stale number' } end

local seq = sign(lane)
call('RPUSH', name .. ':variants', seq, ARGV[9], ARGV[10])
call('HSET', name, 'variants', number)
call('HSET', prefix .. 'hashes:' .. attempt[4], ARGV[8], id)
return { 'stored', seq }
