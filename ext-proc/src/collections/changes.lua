-- Applies changes to a persistent collection, all at once, and answers all of it.
--
-- KEYS[1]: a hash; each member is `EXPIRES:SINCE:VALUE`, times in milliseconds since 1970 by the clock
-- of this server, EXPIRES 0 for never. ARGV: the most members, the most bytes in names and values, how
-- many milliseconds it is kept from now on; then four for each change:
--   'set', member, value, ''                 its value is replaced
--   'add', member, number, ''                a number is added; what is not there counts as 0
--   'unset', member, '', ''                  it is taken away
--   'expire', member, milliseconds, ''       it goes so long from now
--   'decay', member, amount, seconds         it loses the amount for each so many seconds passed
-- Without changes nothing is written.
--
-- Answers for how many milliseconds it is kept (-2: it is not there), and four for each member: name, value,
-- milliseconds until it goes (-1: never), milliseconds since it was made, or last made smaller.

local EXACT_MAX = 9007199254740992

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local members_max, bytes_max, timeout = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]

local names, members, gone = {}, {}, {}
local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  local _, last, expires, since = string.find(stored[i + 1], '^(%d+):(%d+):')
  expires, since = tonumber(expires), tonumber(since)
  if last and (expires == 0 or expires > now) then
    names[#names + 1] = stored[i]
    members[stored[i]] = {
      value = string.sub(stored[i + 1], last + 1), expires = expires, since = since,
    }
  else
    gone[stored[i]] = true
  end
end

local function number(text)
  local found = tonumber(string.match(text, '^%s*([+-]?%d+)')) or 0
  return math.max(math.min(found, EXACT_MAX), -EXACT_MAX)
end

-- Adding 0 makes -0 a 0.
local function decimal(value)
  return string.format('%.0f', math.max(math.min(value, EXACT_MAX), -EXACT_MAX) + 0)
end

local function set(name, value)
  local bytes, count = #name + #value, 0
  for other, member in pairs(members) do
    count = count + 1
    if other ~= name then bytes = bytes + #other + #member.value end
  end
  if bytes > bytes_max then return end
  local member = members[name]
  if member then
    member.value, member.changed = value, true
  elseif count < members_max then
    names[#names + 1] = name
    members[name] = { value = value, expires = 0, since = now, changed = true }
    gone[name] = nil
  end
end

local steps = {}

steps.set = set

function steps.add(name, amount)
  local member = members[name]
  set(name, decimal((member and number(member.value) or 0) + number(amount)))
end

function steps.unset(name)
  if members[name] then
    members[name] = nil
    gone[name] = true
  end
end

function steps.expire(name, milliseconds)
  local member = members[name]
  if member then
    member.expires, member.changed = math.max(now + tonumber(milliseconds), 1), true
  end
end

function steps.decay(name, amount, seconds)
  local member, period = members[name], tonumber(seconds)
  if not member or period == 0 then return end
  local periods = math.floor(math.floor(math.max(now - member.since, 0) / 1000) / period)
  if periods == 0 then return end
  local value = number(member.value)
  member.since = member.since + periods * period * 1000
  member.value = decimal(math.max(value - number(amount) * periods, math.min(value, 0)))
  member.changed = true
end

for i = 4, #ARGV, 4 do
  steps[ARGV[i]](ARGV[i + 1], ARGV[i + 2], ARGV[i + 3])
end

local answer = { 0 }
local seen = {}
for _, name in ipairs(names) do
  local member = members[name]
  -- One that was taken away and made again has two names.
  if member and not seen[name] then
    seen[name] = true
    if #ARGV > 3 and member.changed then
      local head = string.format('%.0f:%.0f:', member.expires, member.since)
      redis.call('HSET', KEYS[1], name, head .. member.value)
    end
    answer[#answer + 1] = name
    answer[#answer + 1] = member.value
    answer[#answer + 1] = member.expires == 0 and -1 or member.expires - now
    answer[#answer + 1] = math.max(now - member.since, 0)
  end
end
if #ARGV > 3 then
  for name in pairs(gone) do redis.call('HDEL', KEYS[1], name) end
  if #answer > 1 then redis.call('PEXPIRE', KEYS[1], timeout) end
end
answer[1] = redis.call('PTTL', KEYS[1])
return answer
