"""The failure data set, read again: the rows that wait for another try, by their reasons."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from transforms.records import Row
from transforms.resume import read_jsonl
from transforms.rows import UNCALLED

EXAMPLES = 3


def failure_rows(paths: Iterable[str]) -> Iterator[Row]:
    """The rows of failure files. Raises OSError, or ValueError, naming file and line, for what is no failure row."""
    for path in paths:
        for number, row in enumerate(read_jsonl(path), 1):
            if not isinstance(row.get("reason"), str) or "id" not in row:
                raise ValueError(f"{path}, line {number}: no row of a failure: it has no reason or no id")
            yield row


def selected(rows: Iterable[Row], reasons: Collection[str] = (), *, retryable: bool = False) -> Iterator[Row]:
    """The rows with one of `reasons`, if there are any, and with `retryable` only those that a run tries again."""
    for row in rows:
        if (not reasons or row["reason"] in reasons) and (row.get("retryable") or not retryable):
            yield row


@dataclass
class ReasonCount:
    """The failures with one reason: how many, how many of them a run tries again unasked, what they cost in US
    dollars as far as it is known, and the ids and messages of the first few."""

    reason: str
    rows: int = 0
    retryable: int = 0
    cost_usd: float | None = None
    examples: list[tuple[str | None, str]] = field(default_factory=list)

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
            self.examples.append((row["id"], str(row.get("message") or "")))


def by_reason(rows: Iterable[Row]) -> list[ReasonCount]:
    """The counts of all reasons, the most frequent first."""
    counts: dict[str, ReasonCount] = {}
    for row in rows:
        counts.setdefault(row["reason"], ReasonCount(row["reason"])).add(row)
    return sorted(counts.values(), key=lambda count: (-count.rows, count.reason))
