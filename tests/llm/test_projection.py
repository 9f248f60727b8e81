"""Projections: the regression estimator, its ranges, and what they are where little is known."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.projection import Observation, Range, project, projected_sum, share, student_t
from transforms.settings import Price

PRICE = Price(input=1, output=2)


def seen(size: int | None = 100, **changes: Any) -> Observation:
    known: dict[str, Any] = {
        "ok": True,
        "requests": 1,
        "prompt_tokens": 25,
        "completion_tokens": 5,
        "cached_tokens": None,
        "latency_ms": 50.0,
        "size": size,
    }
    return Observation(**{**known, **changes})


@given(st.lists(st.integers(1, 5000), min_size=3, max_size=40), st.floats(0, 300), st.floats(0, 2))
def test_what_lies_on_a_line_is_projected_exactly(sizes: list[int], each: float, per_byte: float) -> None:
    found = projected_sum([(x, each + per_byte * x) for x in sizes], rows=50, size=20_000)
    assert found is not None
    line_is_known = len(set(sizes)) > 1 or sum(sizes) * 50 == 20_000 * len(sizes) or per_byte == 0
    if line_is_known:
        assert found.expected == pytest.approx(50 * each + per_byte * 20_000, rel=1e-5, abs=1e-3)


def test_nothing_is_known_of_nothing() -> None:
    assert projected_sum([], 5, 500) is None
    assert projected_sum([(100, None)], 5, 500) is None
    assert projected_sum([(100, 3.0)], 0, 0) == Range(0, 0, 0)


def test_one_or_two_rows_give_a_ratio_and_no_range() -> None:
    assert projected_sum([(100, 25.0)], 4, 800) == Range(200)
    assert projected_sum([(100, 20.0), (300, 80.0)], 4, 800) == Range(200)
    assert projected_sum([(0, 7.0)], 4, 800) == Range(28)


def test_rows_whose_texts_are_not_at_hand_give_a_mean() -> None:
    found = projected_sum([(None, 4.0), (None, 6.0), (None, 5.0)], 10, 123)
    assert found is not None
    assert found.expected == 50
    assert found.low is not None
    assert 0 < found.low < 50
    assert projected_sum([(None, 4.0)], 10, 123) == Range(40)
    # They do not count beside some whose texts are.
    assert projected_sum([(None, 999.0), (10, 1.0)], 10, 100) == Range(10)


def test_ranges_hold_in_95_of_100_cases() -> None:
    draw = random.Random(7)
    rows = [(x, 10 + 0.2 * x + draw.gauss(0, 8)) for x in (draw.randint(20, 400) for _ in range(3000))]
    held = 0
    for _ in range(400):
        draw.shuffle(rows)
        sample, rest = rows[:60], rows[60:]
        found = projected_sum(sample, len(rest), sum(x for x, _y in rest))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held += found.low <= sum(y for _x, y in rest) <= found.high
    assert 360 <= held <= 396


@pytest.mark.parametrize(("free", "right"), [(1, 12.706), (2, 4.303), (3, 3.182), (10, 2.228), (60, 2.000)])
def test_quantiles_of_student(free: int, right: float) -> None:
    assert student_t(free) == pytest.approx(right, rel=0.01)


def test_shares() -> None:
    assert share(0, 0) is None
    none, some, all_ = share(0, 200), share(10, 100), share(5, 5)
    assert none == Range(0, 0, pytest.approx(0.0188, abs=1e-4))
    assert some == Range(0.1, pytest.approx(0.0552, abs=1e-4), pytest.approx(0.1744, abs=1e-4))
    assert all_ == Range(1, pytest.approx(0.5655, abs=1e-4), 1)


def test_a_projection() -> None:
    found = project([seen(100), seen(200, prompt_tokens=50), seen(300, prompt_tokens=75, requests=3)], 10, 4000, PRICE)
    assert found.basis == 3
    assert found.prompt_tokens is not None
    assert found.prompt_tokens.expected == pytest.approx(1000)
    assert found.completion_tokens == Range(pytest.approx(50), pytest.approx(50), pytest.approx(50))
    assert found.cost_usd is not None
    assert found.cost_usd.expected == pytest.approx((1000 + 2 * 50) / 1e6)
    assert found.failures is not None
    assert found.failures.expected == 0


def test_failures_that_cost_nothing_do_not_make_tokens_known() -> None:
    failed = seen(ok=False, prompt_tokens=0, completion_tokens=0, latency_ms=None)
    unknown = seen(prompt_tokens=None, completion_tokens=None)
    for observed in ([failed] * 5, [failed, unknown] * 5):
        found = project(observed, 10, 1000, PRICE)
        assert (found.prompt_tokens, found.completion_tokens, found.cost_usd) == (None, None, None)
        assert found.failures is not None
    half = project([failed, seen()] * 5, 10, 1000, PRICE)
    assert half.prompt_tokens is not None
    assert half.prompt_tokens.expected == pytest.approx(125)


def test_without_a_price_there_is_no_cost() -> None:
    assert project([seen()] * 4, 10, 1000, None).cost_usd is None
