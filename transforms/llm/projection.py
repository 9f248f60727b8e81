"""From what some rows took to what others will take, with ranges that say how sure that is.

The rows that are known are taken for a random sample of those to come. Totals are projected by the regression
estimator (Cochran, Sampling Techniques, 3rd ed., chapter 7): a least squares line of what a row took over the size of
its request. It holds for what grows with the text, for what is the same in every row and for sums of both, where the
ratio estimator holds for the first alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import sqrt
from typing import NamedTuple

import numpy as np

from transforms.llm.completion import Usage
from transforms.llm.prices import cost_usd
from transforms.settings import Price

_Z = 1.959964  # the normal distribution's 97.5 % quantile: ranges hold 95 %


class Observation(NamedTuple):
    """What one row took. `size` is its request's, in bytes, None where its text is not at hand; tokens are None
    where they are unknown; `latency_ms` is of the request that was answered."""

    ok: bool
    requests: int
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    latency_ms: float | None
    size: int | None = None

    def cost_usd(self, price: Price | None) -> float | None:
        """US dollars at that price, None where it or the tokens are unknown."""
        return cost_usd(Usage(self.prompt_tokens, self.completion_tokens, self.cached_tokens), price)


class Range(NamedTuple):
    """An expected value, and between what it lies in 95 of 100 cases; None where too little is known to say."""

    expected: float
    low: float | None = None
    high: float | None = None

    def times(self, factor: float) -> Range:
        """Each of the three, multiplied."""
        low, high = self.low, self.high
        return Range(
            self.expected * factor, None if low is None else low * factor, None if high is None else high * factor
        )


class Projection(NamedTuple):
    """What rows to come will take, None where it is unknown. `seconds` are of latency, all requests added up;
    `failures` is the share of rows that end as one; `basis` counts the observations."""

    basis: int
    requests: Range | None
    prompt_tokens: Range | None
    completion_tokens: Range | None
    cost_usd: Range | None
    seconds: Range | None
    failures: Range | None


def project(observed: Sequence[Observation], rows: int, size: int, price: Price | None) -> Projection:
    """What `rows` rows will take, whose requests are `size` bytes together."""

    def sum_of(value: Callable[[Observation], float | None]) -> Range | None:
        return projected_sum(((item.size, value(item)) for item in observed), rows, size)

    def billed(value: Callable[[Observation], float | None]) -> Range | None:
        # Where no answer tells its tokens, failures that cost nothing must not make it seem that none are used.
        return sum_of(value) if any(item.prompt_tokens for item in observed) else None

    latency = sum_of(lambda item: None if item.latency_ms is None else item.latency_ms * item.requests / 1000)
    return Projection(
        basis=len(observed),
        requests=sum_of(lambda item: item.requests),
        prompt_tokens=billed(lambda item: item.prompt_tokens),
        completion_tokens=billed(lambda item: item.completion_tokens),
        cost_usd=billed(lambda item: item.cost_usd(price)),
        seconds=latency,
        failures=share(sum(not item.ok for item in observed), len(observed)),
    )


def projected_sum(pairs: Iterable[tuple[int | None, float | None]], rows: int, size: float) -> Range | None:
    """The sum of y over `rows` further rows, whose x add up to `size`, by pairs (x, y) of rows that are known.

    None where no y is known. Pairs without x count only where none has one: y is then taken for independent of it.
    The range is that of predicting the sum of new observations on a regression line (Draper and Smith, Applied
    Regression Analysis, 3rd ed., section 3.2, for their mean), with Student's t; there is none for less than three
    pairs.
    """
    known = [(x, y) for x, y in pairs if y is not None]
    measured = [(float(x), float(y)) for x, y in known if x is not None]
    if not known:
        return None
    if rows == 0:
        return Range(0.0, 0.0, 0.0)
    flat = not measured  # no line, a mean
    x, y = np.array(measured or [(0.0, y) for _x, y in known], dtype=float).T
    count, mean = len(x), size / rows
    spread = float(((x - x.mean()) ** 2).sum())
    if count < 3 and not flat:  # too few for a line: the ratio, as if all grew with the text
        ratio = float(y.sum() / x.sum()) if x.sum() > 0 else 0.0
        return Range(ratio * size if x.sum() > 0 else float(y.mean()) * rows)
    slope = float(((x - x.mean()) * (y - y.mean())).sum()) / spread if spread > 0 else 0.0
    away = 0.0 if flat else mean - float(x.mean())
    expected = max(0.0, rows * (float(y.mean()) + slope * away))
    free = count - (2 if spread > 0 else 1)
    if count < 3:
        return Range(expected)
    residuals = y - y.mean() - slope * (x - x.mean())
    variance = float((residuals**2).sum()) / free
    leverage = 1 / count + (away**2 / spread if spread > 0 else 0.0)
    margin = student_t(free) * rows * sqrt(variance * (leverage + 1 / rows))
    return Range(expected, max(0.0, expected - margin), expected + margin)


def share(hits: int, count: int) -> Range | None:
    """A share, with the score interval (Wilson, Probable inference, 1927), which is sound for small counts and for
    shares near 0 and 1. None for no observations."""
    if count == 0:
        return None
    found, z2 = hits / count, _Z**2
    middle = (found + z2 / (2 * count)) / (1 + z2 / count)
    margin = _Z * sqrt(found * (1 - found) / count + z2 / (4 * count**2)) / (1 + z2 / count)
    low = 0.0 if hits == 0 else max(0.0, middle - margin)
    return Range(found, low, 1.0 if hits == count else min(1.0, middle + margin))


def student_t(free: int) -> float:
    """The 97.5 % quantile of Student's t with `free` degrees of freedom: exact for 1 and 2, and from 3 on the series
    of Abramowitz and Stegun, 26.7.5, to within 1 %."""
    if free <= 2:
        return {1: 12.7062, 2: 4.30265}[free]
    z = _Z
    return (
        z
        + (z**3 + z) / (4 * free)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * free**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * free**3)
    )
