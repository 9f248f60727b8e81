"""Bytes by partition, in files that all workers reach. What travels through the graph is only where they are.

    journal/<run_id>/<random>.part

An engine holds what travels several times over, the in-process runner six times. A file costs no memory, and whoever
needs some of its partitions reads those.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from transforms import files
from transforms.journal import HEADER_FILE

RANGE_BYTES = 16 << 20  # read at once: more is held for a moment, and less is another request to a store
_SUFFIX = ".part"


class Part(NamedTuple):
    """A file, and where each partition begins in it and the last one ends, as 64-bit numbers."""

    path: str
    places: bytes

    @property
    def starts(self) -> list[int]:
        """`places` as numbers."""
        starts: list[int] = np.frombuffer(self.places, np.uint64).tolist()
        return starts


@dataclass(frozen=True)
class Scratch:
    """A folder for such files. `of_run`: it is the journal folder of a run, and goes when that is published. An engine
    may repeat the run after that: then nothing is written, and nothing is found."""

    folder: str
    of_run: bool = True

    def write(self, blobs: Iterable[tuple[int, bytes]], partitions: int) -> Part | None:
        """Writes (partition, bytes), each partition at most once and in ascending order. None for nothing."""
        found = dict(blobs)
        if not found or not self._is_open():
            return None
        sizes = np.zeros(partitions + 1, np.uint64)
        for number, blob in found.items():
            sizes[number + 1] = len(blob)
        part = Part(files.join(self.folder, f"{uuid.uuid4().hex}{_SUFFIX}"), sizes.cumsum(dtype=np.uint64).tobytes())
        with files.create(part.path) as stream:
            for number in sorted(found):
                stream.write(found[number])
        return part

    def read(self, part: Part, wanted: range) -> Iterator[tuple[int, bytes]]:
        """The partitions of a range, as (partition, bytes); without those that are empty."""
        starts = part.starts
        begin = starts[wanted.start]
        size = starts[wanted.stop] - begin
        if not size:
            return
        try:
            with files.open_read(part.path) as stream:
                stream.seek(begin)
                whole = stream.read(size)
        except FileNotFoundError:
            if self._is_open():
                raise
            return
        for number in wanted:
            blob = whole[starts[number] - begin : starts[number + 1] - begin]
            if blob:
                yield number, blob

    def _is_open(self) -> bool:
        return not self.of_run or files.exists(files.join(self.folder, HEADER_FILE))


def ranges(parts: Sequence[Part], partitions: int, most: int = RANGE_BYTES) -> list[range]:
    """All partitions as ranges of up to `most` bytes over all of the parts, or of one partition that has more."""
    total = sum((np.frombuffer(part.places, np.uint64) for part in parts), np.zeros(partitions + 1, np.uint64)).tolist()
    bounds = [0]
    for number in range(1, partitions):
        if total[number + 1] - total[bounds[-1]] > most:
            bounds.append(number)
    return [range(start, stop) for start, stop in itertools.pairwise([*bounds, partitions])]
