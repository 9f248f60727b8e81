"""The digests of done ids, as every step of a run in one process looks them up: held once, and only what is needed.

A side input says where they are: see scratch.py. It is read anew by each bundle of each step, and engines run several
at once. What one of them has loaded is there for all others of the same run; when the last step that uses it is gone,
so is what was loaded.

Of a digest its partition and ten more bytes are held. The chance that any of 10^9 rows is taken for one of 10^8 done
ids is then 10^-10.
"""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from apache_beam.pvalue import AsIter

from transforms.digests import DigestSet, merge
from transforms.scratch import Part, Scratch, ranges

PARTITION_BITS = 10  # of a digest's beginning: at 10^8 ids, a partition is 1 MB
PARTITIONS = 1 << PARTITION_BITS
_REST = slice(1, 11)  # of a digest, which says all but the partition
_SIZE = 10


def partition(value: bytes) -> int:
    """The partition that a digest belongs to."""
    return int.from_bytes(value[:2], "big") >> 16 - PARTITION_BITS


class DonePacker:
    """Joins digests into one blob a partition."""

    def __init__(self, most: int = 1 << 20) -> None:
        self._most = most
        self._blobs: defaultdict[int, bytearray] = defaultdict(bytearray)
        self._held = 0

    def add(self, value: bytes) -> bool:
        """Takes a digest. Returns whether there are now as many as should be held."""
        self._blobs[partition(value)] += value[_REST]
        self._held += 1
        return self._held >= self._most

    def take(self) -> Iterator[tuple[int, bytes]]:
        """What is held; then nothing is held."""
        blobs, self._blobs, self._held = self._blobs, defaultdict(bytearray), 0
        while blobs:
            number, blob = blobs.popitem()
            yield number, bytes(blob)


class HeldDigests:
    """The partitions that a process has loaded so far."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._lock = threading.Lock()
        self._sets: dict[int, DigestSet] = {}

    def one(self, number: int, parts: Sequence[Part]) -> DigestSet:
        """One partition. Whoever asks first loads it, with as many others as are read at once; the others wait."""
        found = self._sets.get(number)
        if found is None:
            with self._lock:
                if number not in self._sets:
                    self._load(next(each for each in ranges(parts, PARTITIONS) if number in each), parts)
            found = self._sets[number]
        return found

    def _load(self, wanted: range, parts: Sequence[Part]) -> None:
        blobs: defaultdict[int, list[bytes]] = defaultdict(list)
        for part in parts:
            for number, blob in self._scratch.read(part, wanted):
                blobs[number].append(blob)
        for number in wanted:
            self._sets[number] = DigestSet(merge(blobs.pop(number, ()), _SIZE), _SIZE)


_lock = threading.Lock()
_held: WeakValueDictionary[str, HeldDigests] = WeakValueDictionary()


@dataclass(frozen=True)
class DoneKey:
    """Names one set of done ids within a process, whose digests are in `scratch`. Made with the graph, so no two runs
    share one."""

    scratch: Scratch
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def held(self) -> HeldDigests:
        """What this process holds of it, which stays for as long as somebody has it."""
        with _lock:
            found = _held.get(self.name)
            if found is None:
                found = _held[self.name] = HeldDigests(self.scratch)
            return found


class Done(NamedTuple):
    """All ids that are done, for the steps of a graph to look up in a DoneDigests. The side input is of Parts."""

    side_input: Any
    key: DoneKey

    @classmethod
    def of(cls, parts: Any, scratch: Scratch) -> Done:
        """From a PCollection of Parts that hold what a DonePacker gives."""
        return cls(AsIter(parts), DoneKey(scratch))


class DoneDigests:
    """A read-only set of digests, as one bundle sees it: over what the process holds, and the bundle's side input for
    what it does not hold yet."""

    def __init__(self, held: HeldDigests, side_input: Iterable[Part]) -> None:
        self._held = held
        self._parts = tuple(side_input)

    def __contains__(self, value: bytes) -> bool:
        return value[_REST] in self._held.one(partition(value), self._parts)
