"""The digests of done ids, as every step of a run in one process looks them up: held once, a partition at a time.

A side input is read anew by each bundle of each step, and engines run several at once. What one of them has loaded is
there for all others of the same run; when the last step that uses it is gone, so is what was loaded.

Of a digest its partition and ten more bytes are held. The chance that any of 10^9 rows is taken for one of 10^8 done
ids is then 10^-9.
"""

from __future__ import annotations

import threading
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from apache_beam.pvalue import AsIter, AsMultiMap
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from transforms.digests import DigestSet, merge

PARTITION_BITS = 10  # of a digest's beginning: at 10^8 ids, a partition is 1 MB
_REST = slice(1, 11)  # of a digest, which says all but the partition
_SIZE = 10

Blobs = Iterable[tuple[int, bytes]]  # (partition, unsorted blob of what is held of digests), several of a partition
BlobsByPartition = Mapping[int, Iterable[bytes]]


def partition(value: bytes) -> int:
    """The partition that a digest belongs to."""
    return int.from_bytes(value[:2], "big") >> 16 - PARTITION_BITS


class DonePacker:
    """Joins digests into one blob a partition: what travels through a graph instead of single ids."""

    def __init__(self, most: int = 262_144) -> None:
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
        for number, blob in blobs.items():
            yield number, bytes(blob)


class HeldDigests:
    """The partitions that a process has loaded so far."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sets: dict[int, DigestSet] = {}
        self._has_all = False

    def one(self, number: int, blobs: BlobsByPartition) -> DigestSet:
        """One partition, loaded alone. Whoever asks first loads it; the others wait for it."""
        found = self._sets.get(number)
        if found is None:
            with self._lock:
                found = self._sets.get(number)
                if found is None:
                    found = self._sets[number] = _digest_set(blobs[number])
        return found

    def one_of_all(self, number: int, blobs: Blobs) -> DigestSet:
        """One partition, loaded with all others."""
        if not self._has_all:
            with self._lock:
                if not self._has_all:
                    self._load_all(blobs)
        return self._sets.get(number, _NOTHING)

    def _load_all(self, blobs: Blobs) -> None:
        joined: defaultdict[int, bytearray] = defaultdict(bytearray)
        for number, blob in blobs:
            joined[number] += blob
        while joined:  # one after the other, so that little is there twice
            number, whole = joined.popitem()
            self._sets[number] = _digest_set([bytes(whole)])
        self._has_all = True


def _digest_set(blobs: Iterable[bytes]) -> DigestSet:
    return DigestSet(merge(blobs, _SIZE), _SIZE)


_NOTHING = DigestSet()
_lock = threading.Lock()
_held: WeakValueDictionary[str, HeldDigests] = WeakValueDictionary()


@dataclass(frozen=True)
class DoneKey:
    """Names one set of done ids within a process. Made with the graph, so no two runs share one. `by_partition` says
    what its side input is: BlobsByPartition, else Blobs."""

    by_partition: bool
    name: str = field(default_factory=lambda: uuid.uuid4().hex)

    def held(self) -> HeldDigests:
        """What this process holds of it, which stays for as long as somebody has it."""
        with _lock:
            return _held.setdefault(self.name, HeldDigests())


class Done(NamedTuple):
    """All ids that are done, for the steps of a graph to look up in a DoneDigests."""

    side_input: Any
    key: DoneKey

    @classmethod
    def of(cls, blobs: Any) -> Done:
        """From a PCollection of what a DonePacker gives.

        A multimap is read a partition at a time, each by a message of its own: what is read at once is one message
        else, and none can have more than 2 GB. Beam's in-process runner sends no messages. It keeps a multimap twice
        for each step that reads it, and reads all of it at the first look: there it is a plain iterable."""
        by_partition = not isinstance(blobs.pipeline.runner, FnApiRunner)
        return cls((AsMultiMap if by_partition else AsIter)(blobs), DoneKey(by_partition))


class DoneDigests:
    """A read-only set of digests, as one bundle sees it: over what the process holds, and the bundle's side input for
    what it does not hold yet."""

    def __init__(self, key: DoneKey, held: HeldDigests, side_input: Any) -> None:
        self._find = held.one if key.by_partition else held.one_of_all
        self._side_input = side_input

    def __contains__(self, value: bytes) -> bool:
        return value[_REST] in self._find(partition(value), self._side_input)
