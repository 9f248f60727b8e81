from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.bins import Bins, arrow_floats, grouped

numbers = st.floats(-1e150, 1e150).map(lambda value: value if abs(value) >= 1e-150 else 0.0)
batches = st.lists(st.lists(numbers, max_size=20), max_size=8)


def filled(*values: float, **settings: float) -> Bins:
    bins = Bins(**settings)  # type: ignore[arg-type]
    bins.add(np.array(values, dtype=float))
    return bins


def test_whole_numbers_have_a_bin_each() -> None:
    bins = filled(3, 5, 5, 7, width=1.0)
    assert bins.width == 1.0
    assert bins.starts.tolist() == [3, 4, 5, 6, 7]
    assert bins.counts.tolist() == [1, 0, 2, 0, 1]


def test_bins_widen_and_stay_aligned() -> None:
    bins = Bins(1.0, most=4, weights=1)
    bins.add(np.array([1.0, 2.0]), np.array([0.5, 0.25]))
    bins.add(np.array([-3.0, 9.0]), np.array([1.0, 2.0]))
    assert bins.width == 4.0
    assert bins.starts.tolist() == [-4, 0, 4, 8]
    assert bins.counts.tolist() == [1, 2, 0, 1]
    assert bins.sums(0).tolist() == [1.0, 0.75, 0.0, 2.0]


def test_nothing_and_what_is_no_number() -> None:
    bins = Bins(weights=1)
    bins.add(np.array([]), np.array([]))
    bins.add(np.array([math.nan, math.inf, -1e151]), np.array([1.0, 1.0, 1.0]))
    assert (bins.count, bins.quantile(0.5), len(bins.starts)) == (0, None, 0)


@pytest.mark.parametrize(("share", "value"), [(0, 1), (0.5, 50), (0.95, 95), (0.99, 99), (0.991, 100), (1, 100)])
def test_quantiles_are_those_of_the_nearest_rank(share: float, value: float) -> None:
    assert filled(*range(1, 101), width=1.0).quantile(share) == value


@settings(deadline=None)
@given(batches, st.integers(1, 64))
def test_no_number_is_lost_whatever_comes(given_batches: list[list[float]], most: int) -> None:
    bins = Bins(2.0**-10, most + 1, weights=1)  # two at least: numbers on both sides of zero never share one
    for batch in given_batches:
        bins.add(np.array(batch, dtype=float), np.ones(len(batch)))
    every = sorted(value for batch in given_batches for value in batch)
    assert bins.count == len(every) == int(bins.sums(0).sum())
    assert len(bins.starts) <= most + 1
    if every:
        assert (bins.smallest, bins.largest) == (every[0], every[-1])


@settings(deadline=None)
@given(st.lists(st.floats(0.001, 1e7), min_size=1, max_size=200), st.floats(0, 1))
def test_a_quantile_is_less_than_a_width_too_low(values: list[float], share: float) -> None:
    bins = filled(*values)
    exact = sorted(values)[max(1, math.ceil(share * len(values))) - 1]
    found = bins.quantile(share)
    assert found is not None
    assert found <= exact < found + bins.width or found == exact


@settings(deadline=None)
@given(st.lists(st.integers(-500, 5000), min_size=1, max_size=200), st.integers(1, 50))
def test_wider_bins_count_the_same(values: list[int], most: int) -> None:
    bins = filled(*values, width=1.0)
    bars = list(grouped(bins, most, bins.smallest, bins.largest))
    assert len(bars) <= most
    assert sum(rows for _start, _end, rows in bars) == len(values)
    for start, end, rows in bars:
        assert rows == sum(start <= value < end for value in values)


def test_nulls_of_a_column_are_left_out() -> None:
    assert arrow_floats(pa.array([1, None, 3])).tolist() == [1.0, 3.0]
    assert arrow_floats(pa.nulls(2)).tolist() == []
