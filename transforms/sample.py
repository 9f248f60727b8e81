"""`--pilot N`: a sample of the records to do, the same whatever the engine, the order or the shards of the input.

Each id has a keyed digest; the sample is the records with the N smallest. The key keeps it apart from all other uses
of digests, so that a sample of a sample is still spread over all.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam

from transforms.digests import SIZE, digest
from transforms.llm.prompt_size import PromptSize
from transforms.records import Record
from transforms.settings import Input, Model, Task
from transforms.tally import TALLY, bundle_tally

_KEY = b"paidonce pilot"
_DRAW = 8  # bytes of a keyed digest: at 10^9 ids the chance that two share one at the sample's edge is nil
_ROW = _DRAW + SIZE + 8
EVERY = (1 << 8 * _DRAW) - 1  # the threshold that lets all records pass


class Picked(NamedTuple):
    """A record of a sample: its keyed digest, the digest of its id and its request's size in bytes."""

    draw: int
    digest: bytes
    size: int


def draw(identifier: str) -> int:
    """A number that an id always has, spread evenly over 64 bits."""
    return int.from_bytes(hashlib.blake2b(identifier.encode(), digest_size=_DRAW, key=_KEY).digest(), "big")


def smallest(blobs: Iterable[bytes], count: int) -> bytes:
    """The `count` records of several samples that come first, packed and sorted."""
    rows = (blob[at : at + _ROW] for blob in blobs for at in range(0, len(blob), _ROW))
    return b"".join(heapq.nsmallest(count, rows))


def unpack(blob: bytes) -> list[Picked]:
    """The records of a sample, in the order of their draws."""
    rows = (blob[at : at + _ROW] for at in range(0, len(blob), _ROW))
    return [
        Picked(int.from_bytes(row[:_DRAW], "big"), row[_DRAW : _DRAW + SIZE], int.from_bytes(row[-8:], "big"))
        for row in rows
    ]


def threshold(picked: list[Picked], count: int) -> int:
    """The largest draw in a sample of `count`; where there were not so many records, all pass."""
    return picked[-1].draw if len(picked) == count else EVERY


@dataclass
class Pick(beam.PTransform):
    """Record -> the `count` records that come first by their draws, packed, as one element."""

    count: int
    task: Task
    input: Input
    model: Model

    def expand(self, pcoll: Any) -> Any:
        step = beam.ParDo(_Pick(self.count, self.task, self.input, self.model))
        return pcoll | "PickInBundle" >> step | "Smallest" >> beam.CombineGlobally(smallest, self.count)


class _Pick(beam.DoFn):
    def __init__(self, count: int, task: Task, input: Input, model: Model) -> None:
        self._count = count
        self._settings = task, input, model

    def setup(self) -> None:
        self._size = PromptSize(*self._settings)

    def start_bundle(self) -> None:
        self._heap: list[tuple[int, bytes]] = []  # the largest draw first

    def process(self, record: Record) -> None:
        number = draw(record.id)
        if len(self._heap) == self._count and -self._heap[0][0] <= number:
            return
        row = number.to_bytes(_DRAW, "big") + digest(record.id) + self._size.of(record.fields).to_bytes(8, "big")
        put = heapq.heappush if len(self._heap) < self._count else heapq.heapreplace
        put(self._heap, (-number, row))

    def finish_bundle(self) -> Iterator[Any]:
        blob = b"".join(row for _number, row in self._heap)
        yield beam.transforms.window.GlobalWindows.windowed_value(blob)


@dataclass
class Sample(beam.PTransform):
    """Record -> Record whose draw is at most `threshold`. The others are counted as unprocessed."""

    threshold: int

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "Sample" >> beam.ParDo(_Sample(self.threshold)).with_outputs(TALLY, main="records")


class _Sample(beam.DoFn):
    def __init__(self, threshold: int) -> None:
        self._threshold = threshold

    def start_bundle(self) -> None:
        self._unprocessed = 0

    def process(self, record: Record) -> Iterator[Record]:
        if draw(record.id) <= self._threshold:
            yield record
        else:
            self._unprocessed += 1

    def finish_bundle(self) -> Iterator[Any]:
        yield bundle_tally({"unprocessed": self._unprocessed})
