-- Bans, for all who share them.
--
-- Keys: the list (networks by the ends of their bans), its version, and which list it is: a Redis that was
-- emptied has another one.
-- Arguments: how many bans are kept, the version that is known (`-` wants no list), then bans: seconds from now
-- (`-` removes the ban), network.
-- Answers version, list, and the time; then, unless the version is known, all bans that hold: network, end.

local time = redis.call('TIME')
local now = tonumber(time[1])
local moment = time[1] .. '.' .. time[2]
local list = redis.call('GET', KEYS[3])
if not list then
  list = moment
  redis.call('SET', KEYS[3], list)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
for i = 3, #ARGV, 2 do
  if ARGV[i] == '-' then
    redis.call('ZREM', KEYS[1], ARGV[i + 1])
  else
    redis.call('ZADD', KEYS[1], 'GT', now + tonumber(ARGV[i]), ARGV[i + 1])
  end
end
if #ARGV > 2 then
  redis.call('SET', KEYS[2], moment)
end
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -(tonumber(ARGV[1]) + 1))
local version = redis.call('GET', KEYS[2]) or '0'
local head = {version, list, time[1]}
if ARGV[2] == '-' or ARGV[2] == version then
  return head
end
local all = redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')
for i = 3, 1, -1 do
  table.insert(all, 1, head[i])
end
return all
