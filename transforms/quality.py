"""How often two columns say the same, counted as a stream: what is right and what was answered, or two answers.

Knows nothing of Beam. What is the same is said by agreement.texts.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from transforms.agreement import texts

MOST_LABELS = 100  # distinct values of a side, up to which it holds labels and not texts
_FEW_LABELS = 12  # so many are labels also where hardly any comes again


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
    """Counts over rows whose left side, what was expected, is known. `rows` are those, `correct` those that agree:
    a null on the right, the answer, is a wrong one. `unlabelled` counts the other rows, which say nothing.

    `counts` has each (expected, answered); it is None once a side has more than MOST_LABELS distinct values, so that
    memory does not grow with texts."""

    def __init__(self) -> None:
        self.rows = 0
        self.correct = 0
        self.unlabelled = 0
        self.counts: Counter[tuple[str, str | None]] | None = Counter()

    def add(self, expected: pa.Array, answered: pa.Array) -> None:
        """Takes a batch in: two columns of equal length, of whatever types."""
        left, right = texts(expected, answered.type), texts(answered, expected.type)
        labelled = pc.is_valid(left)
        left, right = left.filter(labelled), right.filter(labelled)
        self.rows += len(left)
        self.unlabelled += len(expected) - len(left)
        self.correct += pc.sum(pc.equal(left, right)).as_py() or 0
        if self.counts is None:
            return
        pairs = pa.table({"left": left, "right": right})
        counted = pairs.group_by(["left", "right"], use_threads=False).aggregate([([], "count_all")])
        if counted.num_rows > (MOST_LABELS + 1) ** 2:
            self.counts = None
            return
        for row in counted.to_pylist():
            self.counts[row["left"], row["right"]] += row["count_all"]
        if any(len(set(side)) > MOST_LABELS for side in zip(*self.counts, strict=True)):
            self.counts = None

    @property
    def accuracy(self) -> float | None:
        """The share of rows that are right, None where there are none."""
        return self.correct / self.rows if self.rows else None

    @property
    def has_labels(self) -> bool:
        """Whether the values are labels rather than texts: few, that come again."""
        names = {name for pair in self.counts or () for name in pair}
        return self.counts is not None and len(names) <= max(_FEW_LABELS, self.rows / 2)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, the agreement beyond that of chance: (p_o - p_e) / (1 - p_e), where p_o is the share that
        agrees and p_e the share that would if both sides drew their labels at random, each as often as it used them.
        None where that is not defined: without rows, for texts, or where both have one and the same label only.

        Jacob Cohen: A coefficient of agreement for nominal scales. Educational and Psychological Measurement 20 (1),
        1960, pp. 37-46, https://doi.org/10.1177/001316446002000104."""
        if not self.rows or self.counts is None:
            return None
        left, right = self._sides()
        by_chance = sum(left[label] * right[label] for label in left)
        if by_chance == self.rows**2:
            return None
        return (self.correct * self.rows - by_chance) / (self.rows**2 - by_chance)

    def classes(self) -> list[ClassQuality]:
        """All classes that were expected or answered, the most expected first; none of texts."""
        expected, answered = self._sides()
        counts = self.counts or Counter()
        names = sorted({*expected, *answered}, key=lambda name: (-expected[name], -answered[name], name or ""))
        return [
            ClassQuality(name, expected[name], answered[name], 0 if name is None else counts[name, name])
            for name in names
        ]

    def _sides(self) -> tuple[Counter[str | None], Counter[str | None]]:
        """How often each side has each value."""
        left: Counter[str | None] = Counter()
        right: Counter[str | None] = Counter()
        for (one, other), count in (self.counts or {}).items():
            left[one] += count
            right[other] += count
        return left, right
