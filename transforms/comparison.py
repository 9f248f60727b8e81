"""The results of two outputs side by side, joined by id.

What is held of a row is its id's digest and a hash of each answer, some 150 bytes for both sides together; the
rows that differ are read again one by one. A hash has 64 bits: two different texts are taken for the same with a
chance of 1 in 10^19.
"""

from __future__ import annotations

import hashlib
import json
import math
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.agreement import MOST_LABELS, Agreement, texts
from transforms.digests import SIZE, digest
from transforms.records import Row
from transforms.results import result_batches
from transforms.rows import EXPECTED

FIGURES = ("cost_usd", "prompt_tokens", "completion_tokens", "latency_ms")
_DIGEST = f"S{SIZE}"

Hashes = npt.NDArray[np.uint64]  # 0 is null
Places = npt.NDArray[np.int64]
Figures = npt.NDArray[np.float32]


@dataclass
class Side:
    """The results of one output. `judged` is the answer column that is compared with what is right, if any.

    After load(), `digests` are those of the ids in ascending order and `rows` their places among all rows as they are
    read, in whose order the other arrays are. `figures` are NaN where they are not known. `labels` has the texts of
    the hashes of a column that holds no more than MOST_LABELS of them."""

    paths: Sequence[str]
    columns: Sequence[str]
    judged: str | None
    digests: npt.NDArray[np.bytes_] = field(init=False)
    rows: Places = field(init=False)
    answers: dict[str, Hashes] = field(init=False)
    expected: Hashes = field(init=False)
    figures: dict[str, Figures] = field(init=False)
    labels: dict[str, dict[int, str]] = field(init=False)

    def load(self) -> Side:
        """Reads all results. Raises OSError, or ValueError, naming the file, for what is none of a run's."""
        # Buffers that grow in place: arrays to be joined in the end would be held twice, and in pieces.
        answers = {name: bytearray() for name in self.columns}
        figures = {name: bytearray() for name in FIGURES}
        expected, ids = bytearray(), bytearray()
        self.labels = {name: {} for name in self.columns}
        wanted = list(dict.fromkeys(["id", *self.columns, EXPECTED, *FIGURES]))
        for path in self.paths:
            for batch in _batches(path, wanted):
                ids += b"".join(map(digest, _ids(batch, path)))
                for name, buffer in answers.items():
                    buffer += hashes(batch.column(name), labels=self.labels[name]).tobytes()
                like = batch.column(self.judged).type if self.judged is not None else None
                said = pa.nulls(len(batch)) if EXPECTED in self.columns else batch.column(EXPECTED)
                expected += hashes(said, like).tobytes()
                for name, buffer in figures.items():
                    values = batch.column(name).cast(pa.float64()).to_numpy(zero_copy_only=False)
                    buffer += values.astype(np.float32).tobytes()
        self.digests, self.rows = np.unique(np.frombuffer(ids, _DIGEST), return_index=True)
        self.answers = {name: np.frombuffer(buffer, np.uint64) for name, buffer in answers.items()}
        self.expected = np.frombuffer(expected, np.uint64)
        self.figures = {name: np.frombuffer(buffer, np.float32) for name, buffer in figures.items()}
        pa.default_memory_pool().release_unused()
        return self

    def __len__(self) -> int:
        return len(self.digests)


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

    def agreement(self, name: str) -> Agreement:
        """How far the answers in a column agree, over the rows that both have."""
        one, other = self.a.answers[name][self.rows_a], self.b.answers[name][self.rows_b]
        both = (one != 0) & (other != 0)
        one, other = one[both], other[both]
        result = Agreement()
        result.pairs, result.equal = len(one), int((one == other).sum())
        result.confusion = _confusion(one, other, self.a.labels[name], self.b.labels[name])
        return result

    def right_or_wrong(self) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
        """For each row that both have whether A, and whether B, is right: 1, 0, or -1 where nobody says or there is
        no answer. What is right is what A's results say, else what B's do."""
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


def take(paths: Sequence[str], columns: Sequence[str], rows: Places) -> Iterator[Row]:
    """The rows at `rows`, ascending places among all rows in the order of reading. Reads up to the last of them."""
    start = taken = 0
    for path in paths:
        for batch in _batches(path, columns):
            if taken == len(rows):
                return
            upto = int(np.searchsorted(rows, start + batch.num_rows))
            if upto > taken:
                yield from batch.take(pa.array(rows[taken:upto] - start)).to_pylist()
            start, taken = start + batch.num_rows, upto


def take_in_any_order(paths: Sequence[str], columns: Sequence[str], rows: Places) -> Iterator[Row]:
    """The rows at `rows`, places in any order, in that order. Files are read once: what is taken waits for its turn
    in a temporary file."""
    order = np.argsort(rows)
    places = np.zeros(len(rows), dtype=np.int64)
    with tempfile.TemporaryFile() as waiting:
        for at, row in zip(order, take(paths, columns, rows[order]), strict=True):
            places[at] = waiting.tell()
            waiting.write(json.dumps(row).encode() + b"\n")
        for place in places.tolist():
            waiting.seek(place)
            yield json.loads(waiting.readline())


def hashes(values: pa.Array, like: pa.DataType | None = None, labels: dict[int, str] | None = None) -> Hashes:
    """A hash of each value as the text that is compared, 0 for null. Adds what it stands for to `labels`, until
    there are more than MOST_LABELS."""
    encoded = texts(values, like).dictionary_encode()
    codes = np.zeros(len(encoded.dictionary) + 1, dtype=np.uint64)
    for at, text in enumerate(encoded.dictionary.to_pylist()):
        if text is None:
            continue
        code = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") or 1
        codes[at] = code
        if labels is not None and len(labels) <= MOST_LABELS:
            labels[code] = text
    places = encoded.indices.fill_null(len(codes) - 1).to_numpy(zero_copy_only=False)
    found: Hashes = codes[places]
    return found


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


def _batches(path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    try:
        yield from result_batches(path, columns)
    except (ValueError, TypeError, OSError) as error:
        text = str(error)
        raise ValueError(text if path in text else f"{path}: {text}") from None


def _ids(batch: pa.RecordBatch, path: str) -> list[str]:
    ids: list[Any] = batch.column("id").to_pylist()
    if not all(isinstance(identifier, str) for identifier in ids):
        raise ValueError(f"{path}: a row has no id")
    return ids


def _judge(side: Side, rows: Places, said: Hashes) -> npt.NDArray[np.int8]:
    if side.judged is None:
        return np.full(len(rows), -1, dtype=np.int8)
    answer = side.answers[side.judged][rows]
    return np.where((said == 0) | (answer == 0), -1, answer == said).astype(np.int8)


def _confusion(
    one: Hashes, other: Hashes, labels: dict[int, str], other_labels: dict[int, str]
) -> Counter[tuple[str, str]] | None:
    if max(len(labels), len(other_labels)) > MOST_LABELS:
        return None
    known = {**labels, **other_labels}
    codes = np.array(sorted(known), dtype=np.uint64)
    pairs = np.searchsorted(codes, one) * len(codes) + np.searchsorted(codes, other)
    found, counts = np.unique(pairs, return_counts=True)
    texts_of = [known[int(code)] for code in codes]
    return Counter(
        {
            (texts_of[pair // len(codes)], texts_of[pair % len(codes)]): int(count)
            for pair, count in zip(found.tolist(), counts.tolist(), strict=True)
        }
    )
