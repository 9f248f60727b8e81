"""Done ids are a set of digests, which a process holds once, and for as long as somebody uses it."""

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.digests import SIZE, digest
from transforms.done_digests import PARTITION_BITS, Done, DoneDigests, DoneKey, DonePacker, partition

# Few different bytes, so that repeats, common beginnings and NUL bytes at the end are common.
FEW = st.lists(st.sampled_from([0, 1, 0x3F, 0x40, 0x80, 0xFF]), min_size=SIZE, max_size=SIZE).map(bytes)
DIGESTS = FEW | st.binary(min_size=SIZE, max_size=SIZE)


class Blobs:
    """What a bundle's side input is, in memory; counts what is read of it."""

    def __init__(self, blobs: list[tuple[int, bytes]]) -> None:
        self._blobs = blobs
        self.read: list[int | None] = []

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        self.read.append(None)
        return iter(self._blobs)

    def by_partition(self) -> "ByPartition":
        return ByPartition(self)


class ByPartition:
    def __init__(self, blobs: Blobs) -> None:
        self._all = blobs

    def __getitem__(self, number: int) -> list[bytes]:
        self._all.read.append(number)
        return [blob for found, blob in self._all._blobs if found == number]


def side_input(blobs: Blobs, *, by_partition: bool) -> Any:
    return blobs.by_partition() if by_partition else blobs


@settings(deadline=None)
@given(st.lists(DIGESTS, max_size=40), st.lists(DIGESTS, max_size=10), st.integers(1, 8), st.booleans())
def test_they_are_a_set(values: list[bytes], others: list[bytes], most: int, by_partition: bool) -> None:
    packer = DonePacker(most)
    blobs: list[tuple[int, bytes]] = []
    for value in values:
        if packer.add(value):
            blobs += packer.take()
    blobs += packer.take()
    assert not list(packer.take())
    key = DoneKey(by_partition)
    found = DoneDigests(key, key.held(), side_input(Blobs(blobs), by_partition=by_partition))
    kept = {(partition(value), value[1:11]) for value in values}
    assert all(value in found for value in values)
    assert [other in found for other in others] == [(partition(other), other[1:11]) in kept for other in others]


def test_digests_that_differ_in_any_of_the_bits_that_are_kept_are_told_apart(make: Any) -> None:
    value = digest("a")
    key = DoneKey(by_partition=False)
    found = DoneDigests(key, key.held(), make.done_blobs("a"))
    assert value in found
    number = int.from_bytes(value, "big")
    for bit in range(8 * 11):
        assert (number ^ 1 << 8 * SIZE - 1 - bit).to_bytes(SIZE, "big") not in found, bit


def test_partitions_are_even() -> None:
    counts = [0] * (1 << PARTITION_BITS)
    for number in range(64 << PARTITION_BITS):
        counts[partition(digest(str(number)))] += 1
    assert min(counts) > 24  # of 64 in the mean, five standard deviations
    assert max(counts) < 128


@pytest.mark.parametrize("by_partition", [True, False])
def test_all_bundles_of_a_process_share_what_one_has_loaded(make: Any, by_partition: bool) -> None:
    blobs = Blobs(make.done_blobs("a", "b"))
    key = DoneKey(by_partition)
    held = key.held()
    for _bundle in range(3):
        found = DoneDigests(key, key.held(), side_input(blobs, by_partition=by_partition))
        assert digest("a") in found
        assert digest("not there") not in found
    wanted = [partition(digest("a")), partition(digest("not there"))] if by_partition else [None]
    assert blobs.read == wanted  # once each, and nothing of b where that is possible
    del held


def test_runs_do_not_see_each_other(make: Any) -> None:
    keys = DoneKey(by_partition=False), DoneKey(by_partition=False)
    held = [key.held() for key in keys]
    first = DoneDigests(keys[0], held[0], make.done_blobs("a"))
    second = DoneDigests(keys[1], held[1], make.done_blobs("b"))
    assert [digest("a") in first, digest("a") in second] == [True, False]
    assert [digest("b") in first, digest("b") in second] == [False, True]


def test_nothing_is_held_when_nobody_uses_it(make: Any) -> None:
    key = DoneKey(by_partition=False)
    held = key.held()
    assert digest("a") in DoneDigests(key, held, make.done_blobs("a"))
    gone = weakref.ref(held)
    del held
    gc.collect()
    assert gone() is None
    assert digest("a") not in DoneDigests(key, key.held(), [])


@pytest.mark.parametrize("by_partition", [True, False])
def test_what_could_not_be_read_is_read_again(make: Any, by_partition: bool) -> None:
    key = DoneKey(by_partition)
    held = key.held()

    class Broken:
        def __iter__(self) -> Any:
            raise OSError("gone")

        def __getitem__(self, _number: int) -> Any:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        assert digest("a") in DoneDigests(key, held, Broken())
    whole = side_input(Blobs(make.done_blobs("a")), by_partition=by_partition)
    assert digest("a") in DoneDigests(key, held, whole)


@pytest.mark.parametrize("by_partition", [True, False])
def test_bundles_at_once_load_once(make: Any, by_partition: bool) -> None:
    blobs = Blobs(make.done_blobs(*map(str, range(2000))))
    key = DoneKey(by_partition)
    held = key.held()
    barrier = threading.Barrier(4)

    def look(_bundle: int) -> bool:
        found = DoneDigests(key, held, side_input(blobs, by_partition=by_partition))
        barrier.wait()
        return all(digest(str(number)) in found for number in range(2000))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(look, range(4)))
    assert len(blobs.read) == len(set(blobs.read))


class _Look(beam.DoFn):
    def __init__(self, key: DoneKey) -> None:
        self._key = key

    def process(self, identifier: str, blobs: Any) -> Iterator[tuple[str, bool]]:
        yield identifier, digest(identifier) in DoneDigests(self._key, self._key.held(), blobs)


@pytest.mark.parametrize("by_partition", [True, False])
def test_a_side_input_of_either_kind_is_read_as_such(pipeline: Any, make: Any, by_partition: bool) -> None:
    with pipeline() as p:
        blobs = p | "Blobs" >> beam.Create(make.done_blobs(*map(str, range(300)))).with_output_types(tuple[int, bytes])
        as_side_input = beam.pvalue.AsMultiMap if by_partition else beam.pvalue.AsIter
        done = Done(as_side_input(blobs), DoneKey(by_partition))
        found = p | "Ids" >> beam.Create(["7", "299", "300"]) | beam.ParDo(_Look(done.key), done.side_input)
        assert_that(found, equal_to([("7", True), ("299", True), ("300", False)]))


def test_the_in_process_runner_gets_a_plain_iterable_and_every_other_a_multimap() -> None:
    kinds = {}
    for runner in ("FnApiRunner", "PrismRunner", "PortableRunner"):
        blobs = beam.Pipeline(runner=runner) | beam.Create([]).with_output_types(tuple[int, bytes])
        done = Done.of(blobs)
        kinds[runner] = type(done.side_input), done.key.by_partition
    multimap = beam.pvalue.AsMultiMap, True
    assert kinds == {
        "FnApiRunner": (beam.pvalue.AsIter, False),
        "PrismRunner": multimap,
        "PortableRunner": multimap,
    }
