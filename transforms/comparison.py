"""The results of two outputs side by side, joined by id. The rows that differ are read again one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from transforms.places import Places
from transforms.quality import MOST_LABELS, Confusion
from transforms.side import Figures, Hashes, Side


@dataclass(frozen=True)
class Comparison:
    """Two loaded sides. `rows_a` and `rows_b` are the places of the ids that both have among the rows of each, in the
    order of A's."""

    a: Side
    b: Side
    rows_a: Places
    rows_b: Places

    @classmethod
    def of(cls, a: Side, b: Side) -> Comparison:
        """Joins two sides that are loaded."""
        place = np.searchsorted(b.digests, a.digests)
        place[place == len(b)] = 0
        match = (b.digests[place] == a.digests) if len(b) else np.zeros(len(a), dtype=bool)
        rows_a, rows_b = a.rows[match], b.rows[place[match]]
        order = np.argsort(rows_a)
        return cls(a, b, rows_a[order], rows_b[order])

    def __len__(self) -> int:
        return len(self.rows_a)

    def agreement(self, name: str) -> Confusion:
        """How far the answers in a column agree, over the rows in which both have one."""
        one, other = self.a.answers[name][self.rows_a], self.b.answers[name][self.rows_b]
        both = (one != 0) & (other != 0)
        one, other = one[both], other[both]
        result = Confusion()
        result.rows, result.correct = len(one), int((one == other).sum())
        result.counts = _counts(one, other, self.a.labels[name], self.b.labels[name])
        return result

    def right_or_wrong(self) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
        """For each row that both have whether A, and whether B, is right: 1, 0, or -1 where nobody says. An answer that
        is null is wrong. What is right is what A's results say, else what B's do."""
        said = self.a.expected[self.rows_a]
        said = np.where(said == 0, self.b.expected[self.rows_b], said)
        return _judge(self.a, self.rows_a, said), _judge(self.b, self.rows_b, said)

    def differing(self, names: Sequence[str]) -> tuple[Places, Places]:
        """The rows whose answers differ in any of the columns, as places among all rows of A and of B as they are
        read, in the order of A."""
        differs = np.zeros(len(self), dtype=bool)
        for name in names:
            differs |= self.a.answers[name][self.rows_a] != self.b.answers[name][self.rows_b]
        return self.rows_a[differs], self.rows_b[differs]

    def figure(self, name: str) -> tuple[Figures, Figures]:
        """A figure of A and of B, NaN where it is not known, over the rows that both have."""
        return self.a.figures[name][self.rows_a], self.b.figures[name][self.rows_b]


def _judge(side: Side, rows: Places, said: Hashes) -> npt.NDArray[np.int8]:
    if side.judged is None:
        return np.full(len(rows), -1, dtype=np.int8)
    answer = side.answers[side.judged][rows]
    return np.where(said == 0, -1, answer == said).astype(np.int8)


def _counts(
    one: Hashes, other: Hashes, labels: dict[int, str], other_labels: dict[int, str]
) -> Counter[tuple[str, str | None]] | None:
    if max(len(labels), len(other_labels)) > MOST_LABELS:
        return None
    known = {**labels, **other_labels}
    codes = np.array(sorted(known), dtype=np.uint64)
    pairs = np.searchsorted(codes, one) * len(codes) + np.searchsorted(codes, other)
    found, times = np.unique(pairs, return_counts=True)
    texts_of = [known[int(code)] for code in codes]
    counts: Counter[tuple[str, str | None]] = Counter()
    for pair, count in zip(found.tolist(), times.tolist(), strict=True):
        counts[texts_of[pair // len(codes)], texts_of[pair % len(codes)]] = count
    return counts
