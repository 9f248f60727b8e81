"""A histogram of a stream of numbers whose range nobody knows beforehand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

_EXACT = 2.0**53  # beyond it, neighbouring integers are one float

_LARGEST = 1e150  # so that no quotient of a number and a width overflows or underflows

Floats = npt.NDArray[np.float64]


class Bins:
    """Counts of numbers in at most `most` bins of one width, each a whole multiple of it; with `weights`, also the
    sums of so many further amounts. Where values span too much, the width doubles: memory is the same for any number
    of rows, and a value's place is known to less than one width."""

    def __init__(self, width: float = 2.0**-30, most: int = 1024, weights: int = 0) -> None:
        self.width = width
        self.smallest, self.largest = math.inf, -math.inf
        self._most = most
        self._first = 0  # the lowest bin is the one that begins at _first * width
        self._sums: Floats = np.zeros((1 + weights, 0))  # row 0 counts

    def add(self, values: Floats, *weights: Floats) -> None:
        """Takes numbers in, and for each its weights. NaN and what is beyond 1e150 is left out, what is
        within 1e-150 of zero is zero."""
        finite = np.abs(values) <= _LARGEST  # false for NaN as well
        values = np.where(np.abs(values) < 1 / _LARGEST, 0.0, values)[finite]
        if not len(values):
            return
        self.smallest = min(self.smallest, float(values.min()))
        self.largest = max(self.largest, float(values.max()))
        self._make_room()
        at = np.floor(values / self.width).astype(np.int64) - self._first
        for row, weight in enumerate([None, *(each[finite] for each in weights)]):
            self._sums[row] += np.bincount(at, weight, minlength=self._sums.shape[1])

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return int(self._sums[0].sum())

    @property
    def starts(self) -> Floats:
        """Where each bin begins, ascending."""
        starts: Floats = np.arange(self._first, self._first + self._sums.shape[1], dtype=np.float64) * self.width
        return starts

    @property
    def counts(self) -> Floats:
        """How many numbers are in each bin."""
        counts: Floats = self._sums[0]
        return counts

    def sums(self, weight: int) -> Floats:
        """The sum of a weight, counted from 0, in each bin."""
        sums: Floats = self._sums[1 + weight]
        return sums

    def quantile(self, share: float) -> float | None:
        """The number that `share` of all are not above (nearest rank), at most one width too low. None: there are
        none."""
        if not self.count:
            return None
        rank = max(1, math.ceil(share * self.count))
        at = int(np.searchsorted(np.cumsum(self._sums[0]), rank))
        return min(max(float(self.starts[at]), self.smallest), self.largest)

    def _make_room(self) -> None:
        """Widens until all numbers, those to come included, have a bin."""
        width = self.width
        while not self._fits(width):
            width *= 2
        first, last = math.floor(self.smallest / width), math.floor(self.largest / width)
        moved = np.zeros((len(self._sums), last - first + 1))
        if self._sums.shape[1]:
            # Exact: all of it is whole numbers below 2**53 times powers of two.
            places = np.floor(self.starts / width).astype(np.int64) - first
            for old, new in zip(self._sums, moved, strict=True):
                new += np.bincount(places, old, minlength=len(new))
        self._first, self.width, self._sums = first, width, moved

    def _fits(self, width: float) -> bool:
        low, high = self.smallest / width, self.largest / width
        return max(abs(low), abs(high)) < _EXACT and math.floor(high) - math.floor(low) < self._most


def grouped(bins: Bins, most: int, low: float, high: float) -> Iterator[tuple[float, float, int]]:
    """The counts of at most `most` wider bins over what lies between `low` and `high`: (start, end, count)."""
    starts, counts = bins.starts, bins.counts
    first = max(0, int(np.searchsorted(starts, low, side="right")) - 1)
    last = int(np.searchsorted(starts, high, side="right"))
    step = max(1, math.ceil((last - first) / most))
    for at in range(first, last, step):
        end = min(at + step, last)
        yield float(starts[at]), float(starts[at]) + step * bins.width, int(counts[at:end].sum())


def arrow_floats(values: Any) -> Floats:
    """An Arrow column of numbers as floats, without its nulls."""
    found: Floats = values.drop_null().to_numpy(zero_copy_only=False).astype(np.float64)
    return found
