from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.report import figures

positive = st.floats(1e-6, 1e12)


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (figures.number(None), "unknown"),
        (figures.number(1234567), "1,234,567"),
        (figures.number(0.1234), "0.123"),
        (figures.brief(37_683_369), "37.7M"),
        (figures.brief(999_999), "999,999"),
        (figures.dollars(None), "unknown"),
        (figures.dollars(0), "$0.00"),
        (figures.dollars(1234.5), "$1,234.50"),
        (figures.dollars(0.0742), "$0.074"),
        (figures.dollars(0.5), "$0.50"),
        (figures.percent(None), "–"),
        (figures.percent(1), "100 %"),
        (figures.percent(0.999999), "99.99 %"),
        (figures.percent(0.000001), "0.01 %"),
        (figures.percent(0.5), "50.0 %"),
        (figures.milliseconds(None), "unknown"),
        (figures.milliseconds(0.25), "0.25 ms"),
        (figures.milliseconds(999.9), "1 s"),
        (figures.milliseconds(90_000), "1 min 30 s"),
        (figures.duration(59.7), "1 min"),
        (figures.duration(7800), "2 h 10 min"),
        (figures.duration(90_000), "1 d 1 h"),
        (figures.moment("2026-01-31T08:00:00.123Z"), "2026-01-31 08:00:00"),
        (figures.moment(None), "unknown"),
        (figures.moment_of(1e30), "unknown"),
    ],
)
def test_as_people_read_them(shown: str, text: str) -> None:
    assert shown == text


def test_ticks_by_hand() -> None:
    assert figures.ticks(0, 100) == [0, 50, 100]
    assert figures.ticks(0, 80) == [0, 20, 40, 60, 80]
    assert figures.ticks(-3, 3, 6) == [-3, -2, -1, 0, 1, 2, 3]
    assert figures.amount_ticks(73) == [0, 20, 40, 60, 80]
    assert figures.amount_ticks(0) == [0, 1]
    assert figures.amount_ticks(2, whole=True) == [0, 1, 2]
    assert figures.duration_ticks(150) == [(0, "0 min"), (60, "1 min"), (120, "2 min")]
    assert figures.duration_ticks(100) == [(0, "0 s"), (30, "30 s"), (60, "60 s"), (90, "90 s")]
    assert figures.decade_ticks(1.5, 3.5) == [100, 300, 1000, 3000]
    assert figures.axis_labels([0, 5000, 10_000]) == ["0", "5k", "10k"]
    assert figures.dollar_labels([0, 0.002, 0.004]) == ["$0.000", "$0.002", "$0.004"]


@settings(deadline=None)
@given(positive)
def test_an_axis_ends_at_a_tick_that_is_not_far_above(high: float) -> None:
    ticks = figures.amount_ticks(high)
    assert high <= ticks[-1] * (1 + 1e-9) <= 2 * high
    assert ticks[0] == 0
    assert 3 <= len(ticks) <= 6


@settings(deadline=None)
@given(positive, st.integers(2, 8))
def test_times_have_a_few_ticks_whose_labels_differ(seconds: float, about: int) -> None:
    ticks = figures.duration_ticks(seconds, about)
    assert 1 <= len(ticks) <= about + 1
    assert len({label for _at, label in ticks}) == len(ticks)
    assert all(0 <= at <= seconds * (1 + 1e-6) for at, _label in ticks)


@settings(deadline=None)
@given(st.floats(-2, 8), st.floats(0.2, 9))
def test_ticks_of_a_logarithmic_axis_keep_their_distance(low: float, length: float) -> None:
    logs = [math.log10(at) for at in figures.decade_ticks(low, low + length, 0.16)]
    assert all(low <= at <= low + length for at in logs)
    assert all(later - earlier >= 0.12 * length for earlier, later in pairwise(logs))


@settings(deadline=None)
@given(st.lists(positive, min_size=1, max_size=5, unique=True))
def test_every_amount_has_a_text(amounts: list[float]) -> None:
    texts: list[Any] = [*figures.axis_labels(sorted(amounts)), *figures.dollar_labels(sorted(amounts))]
    texts += [function(amounts[0]) for function in (figures.number, figures.brief, figures.dollars, figures.duration)]
    assert all(isinstance(text, str) and text for text in texts)
