-- Takes tokens of limits, or gives them back: the arithmetic of glacis-limits, number for number.
--
-- KEYS: the counter of each ask. ARGV: what to do ('all', 'each', 'back'); seconds and microseconds
-- since 1970, or two empty strings for the clock of this server; then for each ask
--   'g', nanoseconds between two tokens, burst,  cost, partial ('1' or '0')     GCRA
--   's', milliseconds of a period,       amount, cost, partial                  sliding window
--   'f', milliseconds of a period,       amount, cost, partial                  fixed window
-- and with 'back' the milliseconds since they were taken instead of partial.
--
-- Answers five numbers for each ask: whether it is allowed (1 or 0), what was taken, what is left,
-- how long until it would be allowed (-1: never), how long until all is there again; times in
-- nanoseconds for 'g' and in milliseconds for the others; with 'back', as if 0 was asked for. Each number is below 2^53, up to which
-- doubles are exact.

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

-- How far a clock may go back before it is taken as set: 10 s.
local TOLERANCE_MS = 10000
local TOLERANCE_NS = 10000000000
local SECOND_NS = 1000000000

local seconds, micros = ARGV[2], ARGV[3]
if seconds == '' then
  local time = redis.call('TIME')
  seconds, micros = time[1], time[2]
end
seconds, micros = tonumber(seconds), tonumber(micros)
local now_ns = micros * 1000 -- within the second
local now_ms = seconds * 1000 + floor(micros / 1000)

-- GCRA: what is kept is the theoretical arrival time, nanoseconds since 1970 in decimal.
local gcra = {}

-- How far the arrival is ahead: seconds and the rest apart, since their sum is no exact double.
function gcra.read(text)
  local ahead_s, ahead_ns = string.match(text or '', '^(%d+)(%d%d%d%d%d%d%d%d%d)$')
  if not ahead_s then return 0 end
  return (tonumber(ahead_s) - seconds) * SECOND_NS + (tonumber(ahead_ns) - now_ns)
end

-- No clock that only jitters leaves more than the burst and the jitter to wait for.
function gcra.settle(owed, interval, burst)
  if owed > interval * burst + TOLERANCE_NS then return interval * burst end
  return max(owed, 0)
end

function gcra.write(owed)
  local sum = now_ns + owed
  return string.format('%.0f%09.0f', seconds + floor(sum / SECOND_NS), sum % SECOND_NS)
end

function gcra.reset_ms(owed)
  return ceil(owed / 1000000)
end

function gcra.take(owed, interval, burst, cost)
  local whole = interval * burst
  local wanted = owed + cost * interval
  local allowed = cost == 0 or wanted <= whole
  local retry = 0
  if not allowed then
    retry = cost > burst and -1 or wanted - whole
  else
    owed = wanted
  end
  return owed, allowed, floor(max(whole - owed, 0) / interval), retry, owed
end

function gcra.back(owed, interval, burst, tokens)
  return max(owed - tokens * interval, 0)
end

-- Windows: what is kept is 'index:current:previous'.
local window = {}

function window.read(text, period)
  local at, current, previous = string.match(text or '', '^(%d+):(%d+):(%d+)$')
  local state = { index = floor(now_ms / period), lag = 0 }
  state.elapsed = now_ms - state.index * period
  at, current, previous = tonumber(at), tonumber(current), tonumber(previous)
  current, previous = current or 0, previous or 0
  local ago = state.index - (at or 0)
  if ago < 0 then
    local lag = at * period - now_ms
    if lag <= TOLERANCE_MS then
      state.index, state.elapsed, state.lag = at, 0, lag
    end
  elseif ago == 1 then
    current, previous = 0, current
  elseif ago > 1 then
    current, previous = 0, 0
  end
  state.current, state.previous, state.period = current, previous, period
  return state
end

-- An amount may be smaller than it was when something was counted.
function window.settle(state, period, amount)
  state.current, state.previous = min(state.current, amount), min(state.previous, amount)
  return state
end

function window.write(state)
  return string.format('%.0f:%.0f:%.0f', state.index, state.current, state.previous)
end

-- Until nothing counts: a window's own count weighs in the next one, too.
function window.reset_ms(state)
  if state.current > 0 then return 2 * state.period - state.elapsed + state.lag end
  if state.previous > 0 then return state.period - state.elapsed + state.lag end
  return 0
end

function window.back(state, period, amount, tokens, age)
  local ago = 0
  if age > state.elapsed then ago = ceil((age - state.elapsed) / period) end
  if ago == 0 then
    state.current = max(state.current - tokens, 0)
  elseif ago == 1 then
    state.previous = max(state.previous - tokens, 0)
  end
  return state
end

local sliding = setmetatable({}, { __index = window })

local function weighs(room, count, period)
  if count == 0 then return period end
  return min(floor(room * period / count), period)
end

function sliding.take(state, period, amount, cost)
  local rest = period - state.elapsed
  local used = state.current * period + state.previous * rest
  local free = max(amount * period - used, 0)
  local allowed = cost == 0 or (cost <= amount and cost * period <= free)
  local remaining, retry = floor(free / period), 0
  if allowed then
    state.current = state.current + cost
    remaining = remaining - cost
  elseif cost > amount then
    retry = -1
  else
    local room = amount - cost
    if room >= state.current then
      retry = rest - weighs(room - state.current, state.previous, period)
    else
      retry = rest + period - weighs(room, state.current, period)
    end
    retry = retry + state.lag
  end
  return state, allowed, remaining, retry, window.reset_ms(state)
end

local fixed = setmetatable({}, { __index = window })

function fixed.reset_ms(state)
  return state.current > 0 and state.period - state.elapsed + state.lag or 0
end

function fixed.take(state, period, amount, cost)
  local allowed = cost <= amount - state.current
  state.current = allowed and state.current + cost or amount
  local retry = 0
  if not allowed then retry = cost > amount and -1 or fixed.reset_ms(state) end
  return state, allowed, amount - state.current, retry, fixed.reset_ms(state)
end

local kinds = { g = gcra, s = sliding, f = fixed }

-- Asks of one counter share a row, and see each other.
local rows, asks = {}, {}
for i, key in ipairs(KEYS) do
  local at = 5 * i - 1
  local ask = {
    kind = kinds[ARGV[at]],
    rate = tonumber(ARGV[at + 1]),
    most = tonumber(ARGV[at + 2]),
    cost = tonumber(ARGV[at + 3]),
    extra = tonumber(ARGV[at + 4]),
  }
  if not rows[key] then rows[key] = { text = redis.call('GET', key) or nil } end
  ask.row = rows[key]
  asks[i] = ask
end

local function open(ask)
  local row = ask.row
  if row.state == nil then row.state = ask.kind.read(row.text, ask.rate) end
  row.state = ask.kind.settle(row.state, ask.rate, ask.most)
  row.kind = ask.kind
  return row
end

local function take(ask, cost)
  local row = open(ask)
  local allowed, remaining, retry, reset
  row.state, allowed, remaining, retry, reset = ask.kind.take(row.state, ask.rate, ask.most, cost)
  return { allowed and 1 or 0, allowed and cost or 0, remaining, retry, reset }
end

local function keep()
  for key, row in pairs(rows) do
    local text, reset = row.kind.write(row.state), row.kind.reset_ms(row.state)
    if text ~= row.text and (row.text or reset > 0) then
      redis.call('SET', key, text, 'PX', string.format('%.0f', reset + TOLERANCE_MS))
    end
  end
end

local answers, refused = {}, false
for i, ask in ipairs(asks) do
  if ARGV[1] == 'back' then
    local row = open(ask)
    row.state = ask.kind.back(row.state, ask.rate, ask.most, ask.cost, ask.extra)
    answers[i] = take(ask, 0)
  else
    local cost = ask.cost
    if ask.extra == 1 then cost = min(cost, max(take(ask, 0)[3], 1)) end
    answers[i] = take(ask, cost)
    refused = refused or answers[i][1] == 0
  end
end
if ARGV[1] == 'all' and refused then
  for _, row in pairs(rows) do row.state = nil end
  for i, ask in ipairs(asks) do
    local look = take(ask, 0)
    if answers[i][1] == 1 then answers[i] = look end
  end
end
keep()

local flat = {}
for _, answer in ipairs(answers) do
  for _, number in ipairs(answer) do flat[#flat + 1] = number end
end
return flat
