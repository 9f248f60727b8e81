-- The limits per minute of one account, kept by all worker processes together: what Pace is to one process, by the
-- clock of Redis, for all limits at once. Redis runs each script alone, so that a request takes from all or none.
-- take.lua and tell.lua stand behind this; shared_paces.py puts the numbers of pace.py before it.
--
-- KEYS[1], a hash: pause (until when nobody starts), gather_since, gather_until, gather_divisor, claim_by, claim_until,
-- and for each limit i: i:due, i:held, i:learned, i:sum, i:claim, i:first and i:last (the bins that there are), i:<bin>.
-- KEYS[2], a sorted set: the processes, by when they last asked. Times are in seconds.

local state, workers = KEYS[1], KEYS[2]
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end

local function text(number)
  return string.format('%.17g', number)
end

local function get(field, default)
  return tonumber(redis.call('HGET', state, field) or '') or default
end

local function set(field, number)
  redis.call('HSET', state, field, text(number))
end

local function add(field, number)
  redis.call('HINCRBYFLOAT', state, field, text(number))
end

-- What of the limit i may be used in a minute; nil where there is none. `most` is the caller's text of it.
local function limit_of(i, most, share)
  local own, learned = tonumber(most), get(i .. ':learned')
  if not own or (learned and learned < own) then
    own = learned
  end
  return own and own * share
end

local function keep(seconds)
  local least = math.ceil(1000 * math.max(2 * MINUTE, seconds + MINUTE))
  for _, key in ipairs(KEYS) do
    if redis.call('PTTL', key) < least then
      redis.call('PEXPIRE', key, least)
    end
  end
end
