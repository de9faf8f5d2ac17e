-- What every script begins with: the names of keys, the clock, and the guard.
--
-- KEYS[1] is the environment's `store` hash; every other key is made from its prefix, so a script
-- touches nothing outside its environment. ARGV[1] is the identity of the store as it was opened.
--
-- Rules: whatever a script may refuse it refuses before its first write, for Redis undoes nothing.
-- Ids, nonces, epochs and times stay decimal strings: a Lua number is exact to 2^53 only.
-- Above this file stand three lines made by the program: `final` and `completed`, the states that
-- are, as sets; and `first_version`.

local call = redis.call
local store = KEYS[1]
local prefix = string.sub(store, 1, -1 - #'store')

-- A store that was emptied or replaced under a running relay takes nothing more from it.
if call('HGET', store, 'identity') ~= ARGV[1] then
  return redis.error_reply('REPLACED this is not the store that was opened')
end

-- A whole number as text; `..` alone would write 1e+14.
local function text(number)
  return string.format('%.0f', number)
end

-- Whether one decimal string is below another, whatever their size.
local function below(a, b)
  if #a ~= #b then return #a < #b end
  return a < b
end

-- Milliseconds since the Unix epoch, by the server's own clock.
local function now_ms()
  local time = call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Whether the lane is held under this epoch. An epoch ends with its lease.
local function holds(lane, epoch)
  local found = call('HMGET', prefix .. 'lane:' .. lane, 'epoch', 'holder')
  return found[1] == epoch and found[2] ~= false
end

-- Who has a claim, and whether it is kept. Nobody and not: it is free. Nobody and kept: by whom is
-- not known. A kept claim's value is `kept`, and whoever held it stands apart.
local function owner_of(space, key)
  local owner = call('HGET', prefix .. 'claims:' .. space, key)
  if owner ~= 'kept' then return owner, false end
  return call('HGET', prefix .. 'kept:' .. space, key), true
end

-- Calls a command that takes any number of arguments after its key, as often as it takes: Lua
-- passes a few thousand at most. `list` is of pairs where the command wants pairs.
local MOST = 4000
local function call_many(command, name, list)
  for from = 1, #list, MOST do
    call(command, name, unpack(list, from, math.min(from + MOST - 1, #list)))
  end
end

-- Adds values to the list under a name, for `call_many`.
local function collect(lists, name, first, second)
  local list = lists[name]
  if not list then
    list = {}
    lists[name] = list
  end
  list[#list + 1] = first
  if second then list[#list + 1] = second end
end
