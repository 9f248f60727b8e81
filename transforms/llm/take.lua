-- May a request start, and when? ARGV: the time or '', the process, the headroom, how many seconds ahead a request may
-- be given its turn, so many processes have divided the limits until now or 0, then for each limit the amount and the
-- account's limit or ''. Returns texts: 1 or 0; seconds until the turn, or until it is worth to ask again; the time of
-- the turn; seconds that a pause still lasts; processes alive; seconds until all that is taken is paid off; what is
-- learned of each limit or ''.

local process, headroom, ahead, divisor = ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local count = (#ARGV - 5) / 2

redis.call('ZADD', workers, text(now), process)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', '(' .. text(now - MINUTE))
local alive = redis.call('ZCARD', workers)

-- Processes come back one by one after Redis was away. Until the last of them must have, those who are here have no
-- more than their parts: the others still use theirs.
if divisor > 0 then
  if get('gather_until', 0) <= now then
    set('gather_since', now)
    set('gather_until', now + GATHERING)
    set('gather_divisor', divisor)
  elseif divisor > get('gather_divisor', 0) then
    set('gather_divisor', divisor)
  end
end
if now < get('gather_until', 0) then
  local here = redis.call('ZCOUNT', workers, redis.call('HGET', state, 'gather_since'), '+inf')
  headroom = headroom * math.min(1, here / get('gather_divisor', 1))
end

local function answer(granted, wait, start, pause, debt)
  local found = {granted, text(wait), text(start), text(pause), alive, text(debt)}
  for i = 1, count do
    found[#found + 1] = redis.call('HGET', state, i .. ':learned') or ''
  end
  keep(debt)
  return found
end

-- Drops what was taken more than a minute ago, and returns the last minute's sum.
local function forget(i)
  local first, last = get(i .. ':first'), get(i .. ':last')
  if not first then
    return 0
  end
  local sum = get(i .. ':sum', 0)
  while first <= last and (first + 1) * BIN + MINUTE <= now + NEVER_MIND do
    sum = sum - get(i .. ':' .. first, 0)
    redis.call('HDEL', state, i .. ':' .. first)
    first = first + 1
  end
  if first > last then
    redis.call('HDEL', state, i .. ':first', i .. ':last', i .. ':sum')
    return 0
  end
  set(i .. ':first', first)
  set(i .. ':sum', sum)
  return sum
end

-- When so much of the last minute's sum will be forgotten.
local function free_at(i, over)
  local at = 0
  for place = get(i .. ':first'), get(i .. ':last') do
    local amount = get(i .. ':' .. place)
    if amount then
      at = (place + 1) * BIN + MINUTE
      over = over - amount
      if over <= 0 then
        break
      end
    end
  end
  return at
end

local pause = get('pause', 0) - now
if pause > NEVER_MIND then
  return answer(0, pause, 0, pause, 0)
end

local claimed = get('claim_until', 0) > now and redis.call('HGET', state, 'claim_by')
local start, full = now, false
local limits = {}
for i = 1, count do
  local amount, limit = tonumber(ARGV[4 + 2 * i]), limit_of(i, ARGV[5 + 2 * i], headroom)
  limits[i] = limit
  start = math.max(start, get(i .. ':held', 0))
  if limit then
    start = math.max(start, get(i .. ':due', 0))
    local sum = forget(i)
    if get(i .. ':first') then
      local others = claimed and claimed ~= process and get(i .. ':claim', 0) or 0
      local over = sum + others + math.min(amount, limit) * (1 - 1e-9) - limit
      if over > 0 then
        full = true
        start = math.max(start, free_at(i, over))
      end
    end
  end
end
if start - now <= NEVER_MIND then
  start = now
end

if start - now > ahead then
  -- A large request would never find room while smaller ones of others take each bit that gets free: the first that
  -- the last minute has no room for has it kept free, as long as it comes back to ask.
  if full and (not claimed or claimed == process) then
    redis.call('HSET', state, 'claim_by', process)
    set('claim_until', now + CLAIM)
    for i = 1, count do
      redis.call('HSET', state, i .. ':claim', ARGV[4 + 2 * i])
    end
  end
  return answer(0, start - now - ahead, 0, 0, 0)
end

if claimed == process then
  redis.call('HDEL', state, 'claim_by', 'claim_until')
end
local debt = 0
for i = 1, count do
  local amount, limit = tonumber(ARGV[4 + 2 * i]), limits[i]
  if limit then
    local due = math.max(get(i .. ':due', 0), start - BURST) + amount * PACED / limit
    set(i .. ':due', due)
    debt = math.max(debt, due - now)
    local place = math.floor(start / BIN)
    if not get(i .. ':first') then
      set(i .. ':first', place)
    end
    set(i .. ':first', math.min(place, get(i .. ':first')))
    set(i .. ':last', math.max(place, get(i .. ':last', place)))
    add(i .. ':' .. place, amount)
    add(i .. ':sum', amount)
  end
end
return answer(1, start - now, start, 0, debt)
