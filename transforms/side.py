"""The results of one output, as far as a comparison needs them.

What is held of a row is its id's digest, a hash of each answer and its figures, some 75 bytes. A hash has 64 bits: two
different texts are taken for the same with a chance of 1 in 10^19.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from transforms.agreement import texts
from transforms.digests import SIZE, digest
from transforms.places import Places
from transforms.published import Published
from transforms.quality import MOST_LABELS
from transforms.rows import EXPECTED

FIGURES = ("cost_usd", "prompt_tokens", "completion_tokens", "latency_ms")
_DIGEST = f"S{SIZE}"

Hashes = npt.NDArray[np.uint64]  # 0 is null
Figures = npt.NDArray[np.float32]


@dataclass
class Side:
    """The results of one output. `judged` is the answer column that is compared with what is right, if any.

    After load(), `digests` are those of the ids in ascending order and `rows` their places among all rows as they are
    read, in whose order the other arrays are. `figures` are NaN where they are not known. `labels` has the texts of
    the hashes of a column that holds no more than MOST_LABELS of them."""

    published: Published
    columns: Sequence[str]
    judged: str | None
    digests: npt.NDArray[np.bytes_] = field(init=False)
    rows: Places = field(init=False)
    answers: dict[str, Hashes] = field(init=False)
    expected: Hashes = field(init=False)
    figures: dict[str, Figures] = field(init=False)
    labels: dict[str, dict[int, str]] = field(init=False)

    def load(self) -> Side:
        """Reads all results. Raises Unreadable, or ValueError for rows without an id."""
        # Buffers that grow in place: arrays to be joined in the end would be held twice, and in pieces.
        answers = {name: bytearray() for name in self.columns}
        figures = {name: bytearray() for name in FIGURES}
        expected, ids = bytearray(), bytearray()
        self.labels = {name: {} for name in self.columns}
        wanted = list(dict.fromkeys(["id", *self.columns, EXPECTED, *FIGURES]))
        for batch in self.published.results(wanted):
            ids += b"".join(map(digest, _ids(batch)))
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


def _ids(batch: pa.RecordBatch) -> list[str]:
    ids: list[Any] = batch.column("id").to_pylist()
    if not all(isinstance(identifier, str) for identifier in ids):
        raise ValueError("a row of the results has no id")
    return ids
