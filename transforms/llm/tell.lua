-- What came of a request. ARGV: the time or '', the headroom, the time of its turn, seconds for which nobody is to
-- start or 0, then for each limit the account's limit or '', what was used above or below the amount taken, the limit
-- as the provider states it now or '', and seconds for which it has nothing left or 0.

local headroom, start, pause = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local place = math.floor(start / BIN)

for i = 1, (#ARGV - 4) / 4 do
  local most, difference, learned, hold = unpack(ARGV, 1 + 4 * i, 4 + 4 * i)
  local limit = limit_of(i, most, headroom)
  difference, hold = tonumber(difference), tonumber(hold)
  -- A bin that is gone was taken before there was a limit, or more than a minute ago.
  if limit and difference ~= 0 and get(i .. ':' .. place) then
    add(i .. ':due', difference * PACED / limit)
    add(i .. ':' .. place, difference)
    add(i .. ':sum', difference)
  end
  if learned ~= '' then
    if not limit then
      set(i .. ':due', now) -- no burst on top of what went out uncounted
    end
    redis.call('HSET', state, i .. ':learned', learned)
  end
  if hold > 0 then
    set(i .. ':held', math.max(get(i .. ':held', 0), now + hold))
  end
end
if pause > 0 then
  set('pause', math.max(get('pause', 0), now + pause))
end
keep(math.max(pause, 0))
