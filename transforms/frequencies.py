"""How often each label comes, over a stream of columns."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

_MOST = 20_000  # different labels that are counted one by one
_LONGEST = 200  # characters of a label; longer ones that begin alike count as one


class Frequencies:
    """Counts of labels. Beyond the first 20,000 different ones new labels are only counted together, so that a
    column of free text does not fill the memory."""

    def __init__(self, most: int = _MOST) -> None:
        self.counts: Counter[str] = Counter()
        self.untold = 0  # values whose label is not among those counted
        self.nulls = 0
        self._most = most

    def add(self, values: pa.Array) -> None:
        """Takes in a column of text or booleans, or of lists of them, of which each item counts."""
        if pa.types.is_list(values.type):
            self.nulls += values.null_count
            values = pc.list_flatten(values)
        self.nulls += values.null_count
        values = values.drop_null()
        if not len(values):
            return
        texts = pc.utf8_slice_codeunits(values.cast(pa.string()), 0, _LONGEST)
        counted = pc.value_counts(texts)
        for label, count in zip(*(counted.field(name).to_pylist() for name in ("values", "counts")), strict=True):
            if label in self.counts or len(self.counts) < self._most:
                self.counts[label] += count
            else:
                self.untold += count

    @property
    def total(self) -> int:
        """Values that are not null."""
        return self.counts.total() + self.untold

    def top(self, most: int) -> list[tuple[str, int]]:
        """The most frequent labels; of equally frequent ones, in the order of the alphabet."""
        return sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))[:most]

    @property
    def free_text(self) -> bool:
        """Whether the values are texts of their own rather than labels: many, and few of them come again."""
        return self.untold > self.total / 2 or (len(self.counts) > 50 and len(self.counts) > self.total / 2)
