-- The budget of one run, kept by all worker processes together, in nano-dollars. ARGV: the time or '', the process, the
-- generation that it knows, seconds until what it has set aside lapses unless it is heard of, what it has spent since
-- it last told, what it has set aside and for how many calls, and the same with one call more, which it asks for, or
-- '' and ''; then the budget.
--
-- KEYS[1], a hash: spent, generation, opened; KEYS[2] and KEYS[3], hashes by process: what is set aside, for how many
-- calls; KEYS[4], a sorted set: the processes, by when that lapses.
--
-- Returns the generation and seconds since it was opened, texts; where that is the one the process knows, also 1 if
-- what it asks for is set aside, what is spent, what others have set aside and for how many calls, and how many
-- processes there are.

local ledger, reserved, calls, lapses = unpack(KEYS)
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] + time[2] / 1e6
end
local process, known, lapse = ARGV[2], ARGV[3], tonumber(ARGV[4])

local generation = redis.call('HGET', ledger, 'generation') or ''
if generation == '' or generation ~= known then
  local age = now - tonumber(redis.call('HGET', ledger, 'opened') or now)
  return {generation, string.format('%.17g', age)}
end

for _, gone in ipairs(redis.call('ZRANGEBYSCORE', lapses, '-inf', string.format('%.17g', now))) do
  if gone ~= process then
    redis.call('HDEL', reserved, gone)
    redis.call('HDEL', calls, gone)
    redis.call('ZREM', lapses, gone)
  end
end

local spent = redis.call('HINCRBY', ledger, 'spent', ARGV[5])
local others, under_way = 0, 0
local amounts, counts = redis.call('HGETALL', reserved), redis.call('HGETALL', calls)
for at = 1, #amounts, 2 do
  if amounts[at] ~= process then
    others = others + tonumber(amounts[at + 1])
  end
end
for at = 1, #counts, 2 do
  if counts[at] ~= process then
    under_way = under_way + tonumber(counts[at + 1])
  end
end

local mine, count, granted = ARGV[6], ARGV[7], 0
if ARGV[8] ~= '' and spent + others + tonumber(ARGV[8]) <= tonumber(ARGV[10]) then
  mine, count, granted = ARGV[8], ARGV[9], 1
end
redis.call('HSET', reserved, process, mine)
redis.call('HSET', calls, process, count)
redis.call('ZADD', lapses, string.format('%.17g', now + lapse), process)
for _, key in ipairs(KEYS) do
  redis.call('EXPIRE', key, 86400) -- what is lost then is in the journal
end
return {generation, '0', granted, spent, string.format('%.17g', others), under_way, redis.call('HLEN', calls)}
