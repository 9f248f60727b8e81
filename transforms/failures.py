"""Failures by their reasons: which there are, and what each of them came to."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from transforms.records import Row
from transforms.rows import UNCALLED

EXAMPLES = 3  # rows that are kept of each reason


def selected(rows: Iterable[Row], reasons: Collection[str] = (), *, retryable: bool = False) -> Iterator[Row]:
    """The rows with one of `reasons`, if there are any, and with `retryable` only those that a run tries again."""
    for row in rows:
        if (not reasons or row["reason"] in reasons) and (row.get("retryable") or not retryable):
            yield row


@dataclass
class ReasonCount:
    """The failures with one reason: how many, how many of them a run tries again unasked, what they cost in US
    dollars as far as it is known, and the first few of them."""

    reason: str
    rows: int = 0
    retryable: int = 0
    cost_usd: float | None = None
    examples: list[Row] = field(default_factory=list)

    @property
    def uncalled(self) -> bool:
        """Whether it is found before a call, and so anew by each run."""
        return self.reason in UNCALLED

    def add(self, row: Row) -> None:
        """Counts a row."""
        self.rows += 1
        self.retryable += bool(row.get("retryable"))
        cost: Any = row.get("cost_usd")
        if cost is not None:
            self.cost_usd = (self.cost_usd or 0.0) + cost
        if len(self.examples) < EXAMPLES:
            self.examples.append(row)


class ReasonCounts:
    """The counts of all reasons."""

    def __init__(self) -> None:
        self._counts: dict[str, ReasonCount] = {}

    def add(self, row: Row) -> None:
        """Counts a row."""
        self._counts.setdefault(row["reason"], ReasonCount(row["reason"])).add(row)

    def ordered(self) -> list[ReasonCount]:
        """The most frequent first, of equally frequent ones in the order of the alphabet."""
        return sorted(self._counts.values(), key=lambda count: (-count.rows, count.reason))


def by_reason(rows: Iterable[Row]) -> list[ReasonCount]:
    """The counts of all reasons, the most frequent first."""
    counts = ReasonCounts()
    for row in rows:
        counts.add(row)
    return counts.ordered()
