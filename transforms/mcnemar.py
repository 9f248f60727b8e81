"""McNemar's test: whether one of two sides is right more often than chance would have it."""

from __future__ import annotations

import math


def mcnemar(only_a: int, only_b: int) -> float:
    """The chance that two equally good sides differ at least so much: the exact two-sided form of McNemar's test, of
    the rows that A alone has right and those that B alone has right, as a binomial with p = 1/2.

    Quinn McNemar: Note on the sampling error of the difference between correlated proportions or percentages.
    Psychometrika 12 (2), 1947, pp. 153-157, https://doi.org/10.1007/BF02295996."""
    count = only_a + only_b
    if count == 0:
        return 1.0
    log_half, first = count * math.log(2), math.lgamma(count + 1)
    terms = (
        math.exp(first - math.lgamma(k + 1) - math.lgamma(count - k + 1) - log_half)
        for k in range(min(only_a, only_b) + 1)
    )
    return min(1.0, 2 * math.fsum(terms))
