"""How often an answer is the right one: a confusion matrix, gathered a batch at a time, and what follows from it.

Knows nothing of Beam. Two answers can be compared in the same way: the one counts as expected, the other as given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

EXPECTED = "expected"  # the result column that holds the right label


class ClassQuality(NamedTuple):
    """One class by itself. A share whose denominator is zero is None: precision of a class that was never answered,
    recall of one that was never expected."""

    name: str | None  # None: no value
    expected: int  # rows whose right label it is
    answered: int  # rows that were given it
    correct: int

    @property
    def precision(self) -> float | None:
        """Of the rows that were given this class, the share that is of it."""
        return self.correct / self.answered if self.answered else None

    @property
    def recall(self) -> float | None:
        """Of the rows of this class, the share that was given it."""
        return self.correct / self.expected if self.expected else None

    @property
    def f1(self) -> float | None:
        """The harmonic mean of precision and recall."""
        return 2 * self.correct / (self.expected + self.answered) if self.expected + self.answered else None


class Confusion:
    """Counts of (expected, answered). Labels are compared as text: true as `true`, 1 as `1`. Memory grows with the
    number of different pairs, not with rows."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str | None]] = Counter()
        self.unlabelled = 0  # rows without a right label, which say nothing

    def add(self, expected: pa.Array, answered: pa.Array) -> None:
        """Takes a batch in: two columns of equal length. An answer that is null is a wrong one."""
        pairs = pa.table({"expected": as_text(expected), "answered": as_text(answered)})
        labelled = pairs.filter(pc.is_valid(pairs["expected"]))
        self.unlabelled += len(pairs) - len(labelled)
        counted = labelled.group_by(["expected", "answered"], use_threads=False).aggregate([([], "count_all")])
        for right, given, count in zip(*(counted[name].to_pylist() for name in _COUNTED), strict=True):
            self.counts[right, given] += count

    @property
    def rows(self) -> int:
        """Rows with a right label."""
        return sum(self.counts.values())

    @property
    def correct(self) -> int:
        """Rows whose answer is the right label."""
        return sum(count for (right, given), count in self.counts.items() if right == given)

    @property
    def accuracy(self) -> float | None:
        """The share of rows that are right, None where there are none."""
        return self.correct / self.rows if self.rows else None

    def classes(self) -> list[ClassQuality]:
        """All classes that were expected or answered, the most expected first."""
        expected: Counter[str | None] = Counter()
        answered: Counter[str | None] = Counter()
        for (right, given), count in self.counts.items():
            expected[right] += count
            answered[given] += count
        names = sorted({*expected, *answered}, key=lambda name: (-expected[name], -answered[name], name or ""))
        return [
            ClassQuality(name, expected[name], answered[name], 0 if name is None else self.counts[name, name])
            for name in names
        ]


_COUNTED = ("expected", "answered", "count_all")


def answer_column(task: Mapping[str, Any]) -> str | None:
    """The result column that `expected` is compared with, by a configuration's section `task`: the only property of
    its schema, else the one that is named like the input column of the right labels. None: there is no such."""
    properties = list((task.get("schema") or {}).get("properties") or {})
    if len(properties) == 1:
        return str(properties[0])
    named = task.get("expected")
    return named if isinstance(named, str) and named in properties else None


def as_text(values: pa.Array) -> pa.Array:
    """A column as text, as JSON writes its values: 1.0 as `1`, since both are the same number."""
    if pa.types.is_floating(values.type):
        whole = pc.equal(pc.floor(values), values)
        small = pc.less(pc.abs(values), 2.0**53)
        integers = pc.cast(pc.if_else(pc.and_(whole, small), values, None), pa.int64())
        return pc.coalesce(pc.cast(integers, pa.string()), pc.cast(values, pa.string()))
    if pa.types.is_nested(values.type):
        raise ValueError(f"a column of {values.type} cannot be compared as text")
    return pc.cast(values, pa.string())
