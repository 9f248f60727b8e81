"""How soon an amount may be taken from a limit per minute."""

import random
from bisect import bisect_left
from itertools import accumulate
from math import inf

import pytest

from transforms.llm.pace import Pace
from transforms.llm.rate_headers import Rate


def take(pace: Pace, now: float, amount: float = 1.0) -> float:
    """Waits as long as needed; the time at which it was taken."""
    while delay := pace.delay(amount, now):
        now += delay
    pace.take(amount, now)
    return now


def series(pace: Pace, amounts: list[float], now: float = 1000.0) -> list[tuple[float, float]]:
    found = []
    for amount in amounts:
        now = take(pace, now, amount)
        found.append((now, amount))
    return found


def most_in_a_minute(taken: list[tuple[float, float]]) -> float:
    # A hair less than a minute, as the times are sums of floats.
    times, sums = [at for at, _ in taken], list(accumulate((amount for _, amount in taken), initial=0.0))
    return max(sums[bisect_left(times, at + 59.999)] - sums[index] for index, at in enumerate(times))


def test_without_a_limit_nothing_waits() -> None:
    pace = Pace(None, 0.8)
    assert pace.idle
    assert pace.most == inf
    assert series(pace, [1e9] * 10) == [(1000.0, 1e9)] * 10


@pytest.mark.parametrize("per_minute", [0.5, 1, 2, 7, 59, 60, 119, 120, 600, 5000])
def test_no_minute_is_above_the_limit(per_minute: float) -> None:
    count = max(3, int(3 * per_minute))
    taken = series(Pace(per_minute, 1.0), [1.0] * count)
    assert most_in_a_minute(taken) <= max(1, per_minute)
    assert taken[-1][0] - 1000 < 60 * count / per_minute * 1.03  # nor is much of it left unused


def test_no_minute_is_above_the_limit_after_idling() -> None:
    pace = Pace(600, 1.0)
    taken = series(pace, [1.0] * 100)
    taken += series(pace, [1.0] * 1000, taken[-1][0] + 3600)
    assert most_in_a_minute(taken) <= 600


def test_headroom_lowers_the_limit() -> None:
    assert most_in_a_minute(series(Pace(600, 0.5), [1.0] * 900)) <= 300


def test_a_quarter_of_a_second_may_start_at_once() -> None:
    taken = series(Pace(2400, 1.0), [1.0] * 40)
    assert sum(at < 1000.001 for at, _ in taken) == 10


@pytest.mark.parametrize("seed", range(5))
def test_no_minute_is_above_the_limit_whatever_the_amounts(seed: int) -> None:
    draw = random.Random(seed)
    amounts = [draw.choice([1.0, 50.0, 900.0, draw.uniform(0, 1000)]) for _ in range(200)]
    taken = series(Pace(1000, 1.0), amounts)
    assert most_in_a_minute(taken) <= 1000.001
    assert taken[-1][0] - 1000 < 2.2 * sum(amounts) / 1000 * 60  # large ones leave gaps beside them


def test_two_large_ones_are_not_in_one_minute() -> None:
    taken = series(Pace(1000, 1.0), [900.0, 900.0])
    assert 60 <= taken[1][0] - taken[0][0] <= 61


def test_more_than_the_limit_goes_alone_in_its_minute() -> None:
    pace = Pace(1000, 0.5)
    taken = series(pace, [10.0, 800.0, 10.0])
    assert pace.most == 1000
    assert taken[1][0] - taken[0][0] >= 60
    assert taken[2][0] - taken[1][0] >= 60


def test_what_was_not_needed_is_given_back() -> None:
    pace = Pace(600, 1.0)
    for now in range(1000, 1100):
        assert pace.delay(300.0, now) == 0
        pace.take(300.0, now)
        pace.settle(-295.0, now)


def test_what_was_needed_beyond_the_estimate_is_waited_for() -> None:
    pace = Pace(600, 1.0)
    pace.take(5.0, 1000.0)
    pace.settle(295.0, 1000.0)
    assert 29 < pace.delay(1.0, 1000.0) < 31
    pace.settle(300.0, 1000.0)  # the whole minute is gone
    assert 60 <= pace.delay(1.0, 1000.0) < 62


def test_settling_what_was_long_ago_changes_nothing() -> None:
    pace = Pace(600, 1.0)
    pace.take(5.0, 1000.0)
    assert pace.delay(1.0, 1100.0) == 0
    pace.settle(5000.0, 1000.0)
    assert pace.delay(1.0, 1100.0) == 0


def test_the_limit_is_learned() -> None:
    pace = Pace(None, 0.5)
    pace.observe(Rate(600.0, 599.0, 0.1), 1.0, 1000.0)
    assert not pace.idle
    assert pace.most == 600
    assert most_in_a_minute(series(pace, [1.0] * 900)) <= 300


@pytest.mark.parametrize(("own", "learned", "most"), [(600, 1200.0, 600), (1200, 600.0, 600)])
def test_the_lower_of_own_and_learned_limit_holds(own: int, learned: float, most: int) -> None:
    pace = Pace(own, 1.0)
    pace.observe(Rate(learned), 1.0, 1000.0)
    assert pace.most == most


def test_nothing_remaining_waits_for_the_reset() -> None:
    pace = Pace(None, 1.0)
    pace.observe(Rate(600.0, 0.0, 12.0), 1.0, 1000.0)
    assert pace.delay(1.0, 1000.0) == pytest.approx(12)
    assert pace.delay(1.0, 1012.0) == 0


def test_too_little_remaining_waits_for_the_reset() -> None:
    pace = Pace(None, 1.0)
    pace.observe(Rate(None, 40.0, 3.0), 50.0, 1000.0)
    assert pace.delay(50.0, 1000.0) == pytest.approx(3)


def test_a_reset_in_hours_is_looked_at_again_after_a_minute() -> None:
    pace = Pace(None, 1.0)
    pace.observe(Rate(None, 0.0, 7200.0), 1.0, 1000.0)
    assert pace.delay(1.0, 1000.0) == pytest.approx(60)


def test_memory_does_not_grow_with_the_rate() -> None:
    pace = Pace(1_000_000, 1.0)
    for number in range(200_000):
        pace.take(1.0, number / 1000)
        pace.delay(1.0, number / 1000)
    assert len(pace._bins) <= 123


@pytest.mark.parametrize("workers", [2, 7])
def test_the_parts_of_all_workers_are_the_whole(workers: int) -> None:
    paces = [Pace(1200, 1.0, workers=workers) for _ in range(workers)]
    taken = sorted(each for pace in paces for each in series(pace, [1.0] * (3000 // workers)))
    assert most_in_a_minute(taken) <= 1200
    assert taken[-1][0] - 1000 < 60 * 3000 / 1200 * 1.03


def test_a_part_of_a_learned_limit() -> None:
    pace = Pace(None, 1.0, workers=4)
    pace.observe(Rate(600.0), 1.0, 1000.0)
    assert pace.most == 600
    assert most_in_a_minute(series(pace, [1.0] * 300)) <= 150


def test_more_than_a_part_is_no_more_than_the_account_has() -> None:
    pace = Pace(1000, 1.0, workers=4)
    assert pace.most == 1000
    taken = series(pace, [800.0, 10.0])
    assert taken[1][0] - taken[0][0] >= 60


def test_a_divided_pace_begins_with_nothing_and_knows_the_limit() -> None:
    whole = Pace(1200, 0.5)
    whole.learn(600.0, 1000.0)
    part = whole.divided(3, due=1005.0)
    assert (part.most, part.learned) == (600, 600)
    taken = series(part, [1.0] * 150)
    assert taken[0][0] == pytest.approx(1005)
    assert most_in_a_minute(taken) <= 100
    assert taken[1][0] - taken[0][0] == pytest.approx(0.61)  # no burst
