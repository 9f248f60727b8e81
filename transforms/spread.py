"""Records of few large spans, as of one packed file, dealt out to all workers: input.shuffle_records.

Else only spans are shuffled. Here the records to be called are, so an engine holds or spills all of them. They travel
in pieces, each a span of its own for the journal, so that whoever repeats work finds what was answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from transforms.records import Record

Piece = tuple[Record, ...]

FIRST_RECORDS, MOST_RECORDS = 16, 4096  # in a piece
MOST_CHARACTERS = 4 << 20  # or about so many: a piece is one element to the engine
_PIECES_OF_A_SIZE = 16


def records_in(number: int) -> int:
    """How many records the piece of that number, counted from 0, of a span has. Few in the first, so that a small
    input is dealt out as well; many in later ones, so that a large one makes few: 350 for a million records."""
    return min(FIRST_RECORDS << min(number // _PIECES_OF_A_SIZE, 16), MOST_RECORDS)


def pieces(records: Iterable[Record]) -> Iterator[Piece]:
    """The records of a span, in order, as pieces: the same ones each time. Each record's span is its piece's key,
    which is safe in a file name and sorts like the input."""
    packer = _Packer()
    for record in records:
        yield from packer.add(record)
    yield from packer.flush()


@dataclass
class Spread(beam.PTransform):
    """Record -> Record, dealt out anew, with another span. A span's records have to come from one bundle, in order, as
    they do where they are read in one stage."""

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "Pack" >> beam.ParDo(_Pack()) | "Deal" >> beam.Reshuffle() | "Unpack" >> beam.FlatMap(iter)


class _Packer:
    def __init__(self) -> None:
        self._span: str | None = None
        self._number = 0
        self._piece: list[Record] = []
        self._characters = 0

    def add(self, record: Record) -> Iterator[Piece]:
        if record.span != self._span:
            yield from self.flush()
            self._span, self._number = record.span, 0
        self._piece.append(record._replace(span=f"{record.span}-{self._number:06x}"))
        self._characters += sum(len(str(value)) for value in record.fields.values())
        if len(self._piece) == records_in(self._number) or self._characters >= MOST_CHARACTERS:
            yield from self.flush()

    def flush(self) -> Iterator[Piece]:
        if self._piece:
            yield tuple(self._piece)
            self._piece, self._characters = [], 0
            self._number += 1


class _Pack(beam.DoFn):
    def start_bundle(self) -> None:
        self._packer = _Packer()

    def process(self, record: Record) -> Iterator[Piece]:
        yield from self._packer.add(record)

    def finish_bundle(self) -> Iterator[Any]:
        for piece in self._packer.flush():
            yield GlobalWindows.windowed_value(piece)
