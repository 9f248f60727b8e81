"""Eight bytes for each row: the beginnings of its id's digest, by which ids that may repeat are found.

They are gathered by partition, so that those of one id meet in one place, in pieces that say which span each is of. On
the way there they are in files: see scratch.py.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from transforms.formats.spans import Span

TODO = 1  # the lowest bit of a prefix says whether the row is still to be done
PARTITION_BITS = 8  # of a prefix's beginning: at 10^9 rows, one partition is 31 MB
PARTITIONS = 1 << PARTITION_BITS
_RUN = np.dtype([("number", "<u4"), ("start", "<u8"), ("at", "<u8"), ("rows", "<u4")])

Numbers = npt.NDArray[np.uint64]
Places = npt.NDArray[np.int64]
Piece = tuple[bytes, bytes]  # runs of rows of one span (file number, start, number of the first row, rows); prefixes


def encode(piece: Piece) -> bytes:
    """A piece as one run of bytes."""
    runs, prefixes = piece
    return len(runs).to_bytes(8, "big") + runs + prefixes


def decode(blob: bytes) -> Piece:
    """The piece that `encode` was given."""
    end = 8 + int.from_bytes(blob[:8], "big")
    return blob[8:end], blob[end:]


class SpanRepeats(NamedTuple):
    """A span, by its key, that holds ids which may repeat: their prefixes without the lowest bit, and how many of its
    rows that were counted as to do are not, since others with their ids come first."""

    span: str
    surplus: int
    prefixes: bytes


class PrefixPacker:
    """Takes prefixes in the order of reading, and gives them by partition."""

    def __init__(self, most: int = 1 << 20) -> None:
        self._most = most
        self._prefixes = array("Q")
        self._spans: list[tuple[int, int, int, int]] = []  # file number, start, number of its first row here, place
        self._rows = 0  # of the span

    def turn_to(self, span: Span) -> None:
        """What comes from now on is of `span`, from its first row on."""
        self._span = span
        self._rows = 0
        self._begin()

    def add(self, number: int) -> bool:
        """Takes the prefix of the next row. Returns whether there are now as many as should be held."""
        self._prefixes.append(number)
        self._rows += 1
        return len(self._prefixes) >= self._most

    def take(self) -> Iterator[tuple[int, Piece]]:
        """What is held, as (partition, piece); then nothing is held."""
        if not self._prefixes:
            return
        prefixes = np.frombuffer(self._prefixes.tobytes(), np.uint64)
        spans = np.array(self._spans, np.int64)
        owners = spans[:, 3].searchsorted(np.arange(len(prefixes)), side="right") - 1
        partitions = (prefixes >> 64 - PARTITION_BITS).astype(np.int64)
        order = partitions.argsort(kind="stable")  # rows stay in the order of reading
        ends = np.bincount(partitions, minlength=PARTITIONS).cumsum()
        self._prefixes, self._spans = array("Q"), []
        self._begin()
        for number in np.unique(partitions).tolist():
            mine = order[(ends[number - 1] if number else 0) : ends[number]]
            yield number, (_runs(spans, owners[mine]), prefixes[mine].tobytes())

    def _begin(self) -> None:
        self._spans.append((self._span.number, self._span.start, self._rows, len(self._prefixes)))


def _runs(spans: Places, owners: Places) -> bytes:
    found, counts = np.unique(owners, return_counts=True)
    runs = np.empty(len(found), _RUN)
    for place, name in enumerate(("number", "start", "at")):
        runs[name] = spans[found, place]
    runs["rows"] = counts
    return runs.tobytes()


def find_repeats(pieces: Iterable[Piece]) -> Iterator[SpanRepeats]:
    """What is to be known of repeated prefixes, given all pieces of a partition, in two passes over them. Prefixes
    that occur once are forgotten."""
    buffer = bytearray()
    for _runs_of_piece, prefixes in pieces:
        buffer += prefixes
    values = np.frombuffer(buffer, np.uint64)
    values >>= TODO
    values.sort()
    repeated = np.unique(values[1:][values[1:] == values[:-1]])
    del values, buffer
    return _by_span(pieces, repeated) if len(repeated) else iter(())


def _by_span(pieces: Iterable[Piece], repeated: Numbers) -> Iterator[SpanRepeats]:
    met: set[int] = set()
    for (number, start), rows in _rows_by_span(pieces, repeated):
        surplus = 0
        found: set[int] = set()
        for row in rows:
            if row >> TODO in met:  # only the first record with an id can be called
                surplus += row & TODO
            met.add(row >> TODO)
            found.add(row >> TODO)
        yield SpanRepeats(Span("", number, start, None).key, surplus, np.array(sorted(found), np.uint64).tobytes())


def _rows_by_span(pieces: Iterable[Piece], repeated: Numbers) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """The rows whose prefixes are among `repeated`, by span, in the order of the input."""
    runs: list[tuple[int, int, int, list[int]]] = []
    for described, prefixes in pieces:
        numbers = np.frombuffer(prefixes, np.uint64)
        kept = np.isin(numbers >> TODO, repeated)
        if not kept.any():
            continue
        at = 0
        for number, start, first, rows in np.frombuffer(described, _RUN).tolist():
            mine = numbers[at : at + rows][kept[at : at + rows]].tolist()
            at += rows
            if mine:
                runs.append((number, start, first, mine))
    runs.sort(key=lambda run: run[:3])
    spans: dict[tuple[int, int], list[int]] = {}
    for number, start, _first, mine in runs:
        spans.setdefault((number, start), []).extend(mine)
    yield from spans.items()
