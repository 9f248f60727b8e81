"""Limits that several processes share over a Redis of their own."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_left
from math import inf
from typing import Any

import pytest

from transforms.llm.amounts import Amounts
from transforms.llm.pace import Pace
from transforms.llm.paces import Paces
from transforms.llm.rate_headers import Rate, RateHeaders
from transforms.llm.shared_paces import AHEAD, SharedPaces
from transforms.redis_link import RedisLink

_keys = itertools.count()


class Processes:
    """Processes on one account. The clock of Redis, and theirs, is `now`, in seconds."""

    def __init__(self, link: RedisLink) -> None:
        self.now = 1000.0
        self.taken: list[tuple[float, Amounts]] = []
        self._link, self._key = link, f"test{next(_keys)}"

    def new(self, name: str, *, ahead: float = 0.0, headroom: float = 1.0, **settings: Any) -> SharedPaces:
        limits = {name: settings.pop(name) for name in ("requests_per_minute", "tokens_per_minute") if name in settings}
        local = Paces(**limits, headroom=headroom)
        more = {"ahead": ahead, "now": lambda: self.now, **settings}
        return SharedPaces(self._link, self._key, name, local, headroom=headroom, **more)

    def delay(self, paces: SharedPaces, amounts: Amounts) -> float:
        """Asks, and takes it where that is possible. Seconds until then; exact where it is less than a second."""
        turn = paces.ask(amounts)
        paces.heard(turn, amounts, self.now)
        assert turn is not None
        if turn.wait == 0:
            self.taken.append((self.now + turn.starts_in, amounts))
            self.turn = turn.at
        return turn.wait

    def take(self, paces: SharedPaces, amounts: Amounts) -> float:
        """Asks until it has its turn; the time at which it was taken."""
        while delay := self.delay(paces, amounts):
            self.now += delay
        return self.taken[-1][0]

    def look_again(self) -> None:
        """It is time to see whether Redis is back."""
        self._link._try_at = 0.0

    def most_in_a_minute(self, kind: int = 0) -> float:
        return most_in_a_minute([(at, amounts[kind]) for at, amounts in self.taken])


def most_in_a_minute(taken: list[tuple[float, float]]) -> float:
    taken = sorted(taken)
    times, sums = [at for at, _ in taken], [0.0]
    for _, amount in taken:
        sums.append(sums[-1] + amount)
    return max(sums[bisect_left(times, at + 59.999)] - sums[index] for index, at in enumerate(times))


@pytest.fixture
def processes(redis_link: RedisLink) -> Processes:
    return Processes(redis_link)


@pytest.mark.parametrize("seed", range(4))
def test_redis_keeps_to_what_one_process_keeps_to(processes: Processes, seed: int) -> None:
    """The same requests, of any size, at any time and settled in any way, wait as long as with Pace."""
    draw = random.Random(seed)
    limit = draw.choice([3.0, 60.0, 1000.0])
    pace, paces = Pace(limit, 0.8), processes.new("a", tokens_per_minute=limit, headroom=0.8)
    turns: list[tuple[float, str, float]] = []
    for _ in range(300):
        amount = draw.choice([1.0, limit / 50, limit / 3, draw.uniform(0, limit)])
        amounts = Amounts(1.0, amount)
        delay = processes.delay(paces, amounts)
        here = pace.delay(amount, processes.now)
        assert (delay == 0) == (here == 0)
        if delay:
            assert delay == pytest.approx(min(here, 1.0), abs=1e-4)
        else:
            pace.take(amount, processes.now)
            turns.append((processes.now, processes.turn, amount))
        if turns and draw.random() < 0.3:
            at, turn, taken = turns.pop(draw.randrange(len(turns)))
            used = taken * draw.choice([0.2, 0.9, 1.5])
            pace.settle(used - taken, at)
            paces.tell(turn, Amounts(1.0, taken), Amounts(1.0, used), None, 0.0)
        processes.now += draw.choice([0.0, 0.01, delay or 0.1, here, 5.0, 70.0 if draw.random() < 0.1 else 0.0])


@pytest.mark.parametrize("count", [2, 5])
def test_no_minute_of_all_together_is_above_the_limit(processes: Processes, count: int) -> None:
    all_of_them = [processes.new(str(n), ahead=AHEAD, requests_per_minute=1200) for n in range(count)]
    draw = random.Random(count)
    began, waits = processes.now, dict.fromkeys(all_of_them, processes.now)
    while len(processes.taken) < 2000:
        paces = min(all_of_them, key=lambda each: (waits[each], draw.random()))
        processes.now = max(processes.now, waits[paces])
        delay = processes.delay(paces, Amounts())
        waits[paces] = processes.now + delay if delay else processes.taken[-1][0]
    assert processes.most_in_a_minute() <= 1200
    assert processes.taken[-1][0] - began < 60 * 2000 / 1200 * 1.03
    assert all(paces._alive == count for paces in all_of_them)


def test_a_request_takes_from_all_limits_or_none(processes: Processes) -> None:
    a, b = (processes.new(name, requests_per_minute=65, tokens_per_minute=6000) for name in "ab")
    for paces, _ in zip(itertools.cycle([a, b]), range(150), strict=False):
        processes.take(paces, Amounts(1.0, 100.0))
    assert processes.most_in_a_minute(1) <= 6000
    assert processes.now - 1000 == pytest.approx(150, rel=0.04)


def test_a_large_request_finds_room_beside_small_ones(processes: Processes) -> None:
    small, large = (processes.new(name, tokens_per_minute=1000) for name in ("small", "large"))
    for _ in range(300):
        processes.take(small, Amounts(1.0, 10.0))
    began, amounts = processes.now, Amounts(1.0, 500.0)
    while processes.delay(large, amounts):
        processes.delay(small, Amounts(1.0, 10.0))
        processes.now += 0.1
    assert processes.now - began < 40  # half a minute's sum had to be forgotten
    assert processes.most_in_a_minute(1) <= 1000


def test_who_wanted_room_and_died_is_not_waited_for(processes: Processes) -> None:
    small, large = (processes.new(name, tokens_per_minute=1000) for name in ("small", "large"))
    for _ in range(100):
        processes.take(small, Amounts(1.0, 10.0))
    processes.delay(large, Amounts(1.0, 900.0))
    began = processes.now
    processes.take(small, Amounts(1.0, 10.0))
    assert processes.now - began < 4.5


def test_a_limit_that_one_learns_holds_for_all(processes: Processes) -> None:
    a, b = processes.new("a"), processes.new("b", tokens_per_minute=1e6)
    processes.take(a, Amounts())
    processes.take(b, Amounts())
    a.tell(processes.turn, Amounts(), Amounts(), RateHeaders(Rate(60.0, 59.0, 1.0), Rate(6000.0)), 0.0)
    assert processes.delay(b, Amounts(1.0, 10.0)) == 0
    assert processes.delay(b, Amounts(1.0, 10.0)) > 0.5
    assert b.too_large(Amounts(1.0, 7000.0)) == 6000


def test_nothing_remaining_holds_all(processes: Processes) -> None:
    a, b = processes.new("a"), processes.new("b")
    processes.take(a, Amounts())
    a.tell(processes.turn, Amounts(), Amounts(), RateHeaders(Rate(600.0, 0.0, 0.7)), 0.0)
    assert processes.delay(b, Amounts()) == pytest.approx(0.7)


def test_a_pause_is_everybodys(processes: Processes) -> None:
    a, b = processes.new("a"), processes.new("b")
    processes.take(a, Amounts())
    a.tell(processes.turn, Amounts(), Amounts(), None, 10.0)
    a.tell(processes.turn, Amounts(), Amounts(), None, 5.0)  # the longer one stays
    assert b.ask(Amounts()).pause == pytest.approx(10)  # type: ignore[union-attr]
    processes.now += 10
    assert processes.delay(b, Amounts()) == 0


def test_what_is_as_it_was_thought_is_not_told(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    paces = processes.new("a", requests_per_minute=600)
    processes.take(paces, Amounts(1.0, 100.0))
    monkeypatch.setattr(paces, "_tell", None)
    paces.tell(processes.turn, Amounts(1.0, 100.0), Amounts(1.0, 70.0), None, 0.0)


def test_who_has_not_asked_for_a_minute_is_not_counted(processes: Processes) -> None:
    a, b = processes.new("a"), processes.new("b")
    processes.take(a, Amounts())
    processes.take(b, Amounts())
    assert b._alive == 2
    processes.now += 61
    processes.take(b, Amounts())
    assert b._alive == 1


def test_what_is_in_redis_goes_by_itself(processes: Processes, redis_link: RedisLink) -> None:
    processes.take(processes.new("a", requests_per_minute=0.5), Amounts())
    redis = redis_link._redis
    keys = list(redis.keys(f"*{processes._key}*"))
    assert len(keys) == 2
    assert all(119_000 < redis.pttl(key) < 200_000 for key in keys)
    assert min(redis.pttl(key) for key in keys if key.endswith("limits")) > 180_000  # as long as anything is owed


def test_by_the_clock_of_redis(redis_link: RedisLink) -> None:
    local = Paces(requests_per_minute=600)
    paces = SharedPaces(redis_link, f"test{next(_keys)}", "a", local, headroom=1.0)
    turns = [paces.ask(Amounts()) for _ in range(20)]
    starts = [turn.starts_in for turn in turns if turn is not None and turn.wait == 0]
    assert starts[:3] == [0, 0, pytest.approx(0.05, abs=0.05)]  # a quarter of a second's worth at once, then in turns
    assert 0.35 < starts[-1] <= AHEAD
    assert 0 < turns[-1].wait < 0.5  # type: ignore[union-attr]


class TestWithoutRedis:
    def test_each_keeps_to_its_part(self, processes: Processes, redis_server: Any) -> None:
        names = "abcd"
        all_of_them = [processes.new(name, requests_per_minute=1200, others=lambda: 0) for name in names]
        for paces, _ in zip(itertools.cycle(all_of_them), range(1000), strict=False):
            processes.take(paces, Amounts())
        with redis_server.away():
            for paces in all_of_them:
                paces.heard(paces.ask(Amounts()), Amounts(), processes.now)
                assert not paces.sharing
            heads = dict.fromkeys(all_of_them, processes.now)
            while max(heads.values()) < processes.now + 120:
                paces = min(heads, key=heads.__getitem__)
                delay = paces.delay(Amounts(), heads[paces])
                if delay > 0:
                    heads[paces] += delay
                else:
                    paces.take(Amounts(), heads[paces])
                    processes.taken.append((heads[paces], Amounts()))
        assert processes.most_in_a_minute() <= 1200
        after = [at for at, _ in processes.taken if at > processes.now]
        assert len(after) > 0.97 * 2 * 1200

    @pytest.mark.parametrize(("workers", "others", "divisor"), [(1, 0, 2), (8, 0, 8), (1, 5, 5)])
    def test_the_part_is_of_the_most_that_may_be_there(
        self, processes: Processes, redis_server: Any, workers: int, others: int, divisor: int
    ) -> None:
        a, b = (processes.new(n, requests_per_minute=600, workers=workers, others=lambda: others) for n in "ab")
        processes.take(a, Amounts())
        processes.take(b, Amounts())
        with redis_server.away():
            b.heard(b.ask(Amounts()), Amounts(), processes.now)
        now, count = processes.now, 0
        while now < processes.now + 61:
            delay = b.delay(Amounts(), now)
            now += delay
            if delay == 0:
                b.take(Amounts(), now)
                count += 1
        assert count == pytest.approx(600 / divisor, abs=2)

    def test_what_is_owed_is_paid_off_first(self, processes: Processes, redis_server: Any) -> None:
        paces = processes.new("a", tokens_per_minute=6000, others=lambda: 1)
        processes.take(paces, Amounts(1.0, 3000.0))
        with redis_server.away():
            paces.heard(paces.ask(Amounts(1.0, 10.0)), Amounts(1.0, 10.0), processes.now)
        assert paces.delay(Amounts(1.0, 10.0), processes.now) == pytest.approx(30.5, abs=0.5)

    def test_limits_that_were_learned_still_hold(self, processes: Processes, redis_server: Any) -> None:
        a, b = processes.new("a", others=lambda: 2), processes.new("b", others=lambda: 2)
        processes.take(a, Amounts())
        a.tell(processes.turn, Amounts(), Amounts(), RateHeaders(Rate(600.0)), 0.0)
        processes.take(b, Amounts())
        with redis_server.away():
            b.heard(b.ask(Amounts()), Amounts(), processes.now)
        assert b._local.most == (600, inf, inf, inf)
        assert b.delay(Amounts(), processes.now) == pytest.approx(0.3, abs=0.11)  # 0.2 for one, and what is owed

    def test_when_it_is_back_parts_become_a_whole_as_all_come_back(
        self, processes: Processes, redis_server: Any
    ) -> None:
        a, b = (processes.new(name, requests_per_minute=600, others=lambda: 2) for name in "ab")
        for paces in (a, b):
            processes.take(paces, Amounts())
        with redis_server.away():
            for paces in (a, b):
                paces.heard(paces.ask(Amounts()), Amounts(), processes.now)
        assert not a.asks
        processes.look_again()
        assert a.asks

        def rate(paces: SharedPaces) -> float:
            for _ in range(20):  # what may be taken at once is behind us
                processes.take(paces, Amounts())
            first, count = processes.now, 50
            for _ in range(count):
                processes.take(paces, Amounts())
            return count / (processes.now - first) * 61

        assert rate(a) == pytest.approx(300, rel=0.02)  # b still has its part
        processes.take(b, Amounts())
        assert b.sharing
        assert rate(a) == pytest.approx(600, rel=0.02)

    def test_who_does_not_come_back_is_waited_for_a_while(self, processes: Processes, redis_server: Any) -> None:
        paces = processes.new("a", requests_per_minute=600, others=lambda: 2)
        with redis_server.away():
            paces.heard(paces.ask(Amounts()), Amounts(), processes.now)
        processes.look_again()
        processes.take(paces, Amounts())
        processes.now += 41
        for _ in range(60):
            processes.take(paces, Amounts())
        began = processes.now
        for _ in range(60):
            processes.take(paces, Amounts())
        assert processes.now - began == pytest.approx(6.1, abs=0.1)
