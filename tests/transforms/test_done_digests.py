"""Done ids are a set of digests, which a process holds once, and for as long as somebody uses it."""

import gc
import threading
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transforms import done_digests, scratch
from transforms.digests import SIZE, digest
from transforms.done_digests import PARTITION_BITS, PARTITIONS, Done, DoneDigests, DoneKey, DonePacker, partition
from transforms.scratch import Part, Scratch

# Few different bytes, so that repeats, common beginnings and NUL bytes at the end are common.
FEW = st.lists(st.sampled_from([0, 1, 0x3F, 0x40, 0x80, 0xFF]), min_size=SIZE, max_size=SIZE).map(bytes)
DIGESTS = FEW | st.binary(min_size=SIZE, max_size=SIZE)


@pytest.fixture
def place(tmp_path: Path) -> Scratch:
    return Scratch(str(tmp_path), of_run=False)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[range]:
    """The ranges of partitions that are read from now on, of each part."""
    read, found = Scratch.read, []

    def noted(self: Scratch, part: Part, wanted: range) -> Iterator[tuple[int, bytes]]:
        found.append(wanted)
        return read(self, part, wanted)

    monkeypatch.setattr(Scratch, "read", noted)
    return found


def digests(place: Scratch, parts: list[Part]) -> DoneDigests:
    return DoneDigests(DoneKey(place).held(), parts)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(DIGESTS, max_size=40), st.lists(DIGESTS, max_size=10), st.integers(1, 8))
def test_they_are_a_set(place: Scratch, values: list[bytes], others: list[bytes], most: int) -> None:
    packer = DonePacker(most)
    parts = [place.write(packer.take(), PARTITIONS) for value in values if packer.add(value)]
    parts.append(place.write(packer.take(), PARTITIONS))
    assert not list(packer.take())
    found = digests(place, [part for part in parts if part is not None])
    kept = {(partition(value), value[1:11]) for value in values}
    assert all(value in found for value in values)
    assert [other in found for other in others] == [(partition(other), other[1:11]) in kept for other in others]


def test_digests_that_differ_in_any_of_the_bits_that_are_kept_are_told_apart(
    tmp_path: Path, place: Scratch, make: Any
) -> None:
    value = digest("a")
    found = digests(place, make.done(tmp_path, "a"))
    assert value in found
    number = int.from_bytes(value, "big")
    for bit in range(8 * 11):
        assert (number ^ 1 << 8 * SIZE - 1 - bit).to_bytes(SIZE, "big") not in found, bit


def test_partitions_are_even() -> None:
    counts = [0] * PARTITIONS
    for number in range(64 << PARTITION_BITS):
        counts[partition(digest(str(number)))] += 1
    assert min(counts) > 24  # of 64 in the mean, five standard deviations
    assert max(counts) < 128


def test_all_bundles_of_a_process_share_what_one_has_loaded(
    tmp_path: Path, place: Scratch, make: Any, reads: list[range]
) -> None:
    parts = make.done(tmp_path, "a", "b")
    key = DoneKey(place)
    held = key.held()
    for _bundle in range(3):
        found = DoneDigests(key.held(), parts)
        assert digest("a") in found
        assert digest("not there") not in found
    assert reads == [range(PARTITIONS)] * 2  # so little is read at once, of each part
    del held


def test_of_much_only_what_is_looked_for_is_loaded(
    tmp_path: Path, place: Scratch, make: Any, reads: list[range], monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = make.done(tmp_path, *map(str, range(2000)))
    monkeypatch.setattr(done_digests, "ranges", lambda parts, count: scratch.ranges(parts, count, most=400))
    found = digests(place, parts)
    assert digest("7") in found
    assert digest("7") in found
    assert len(reads) == len(parts)
    [wanted] = set(reads)
    assert partition(digest("7")) in wanted
    assert len(wanted) < PARTITIONS / 10
    assert all(digest(str(number)) in found for number in range(2000))
    assert digest("not there") not in found


def test_runs_do_not_see_each_other(tmp_path: Path, place: Scratch, make: Any) -> None:
    first, second = digests(place, make.done(tmp_path, "a")), digests(place, make.done(tmp_path, "b"))
    assert [digest("a") in first, digest("a") in second] == [True, False]
    assert [digest("b") in first, digest("b") in second] == [False, True]


def test_nothing_is_held_when_nobody_uses_it(tmp_path: Path, place: Scratch, make: Any) -> None:
    key = DoneKey(place)
    held = key.held()
    assert digest("a") in DoneDigests(held, make.done(tmp_path, "a"))
    gone = weakref.ref(held)
    del held
    gc.collect()
    assert gone() is None
    assert digest("a") not in DoneDigests(key.held(), [])


def test_what_could_not_be_read_is_read_again(
    tmp_path: Path, place: Scratch, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = digests(place, make.done(tmp_path, "a"))

    def refuse(_path: str) -> Any:
        raise OSError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(scratch.files, "open_read", refuse)
        with pytest.raises(OSError, match="gone"):
            assert digest("a") in found
    assert digest("a") in found


def test_bundles_at_once_load_once(tmp_path: Path, place: Scratch, make: Any, reads: list[range]) -> None:
    parts = make.done(tmp_path, *map(str, range(2000)))
    held = DoneKey(place).held()
    barrier = threading.Barrier(4)

    def look(_bundle: int) -> bool:
        found = DoneDigests(held, parts)
        barrier.wait()
        return all(digest(str(number)) in found for number in range(2000))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(look, range(4)))
    assert len(reads) == len(parts)


class _Look(beam.DoFn):
    def __init__(self, key: DoneKey) -> None:
        self._key = key

    def process(self, identifier: str, parts: Any) -> Iterator[tuple[str, bool]]:
        yield identifier, digest(identifier) in DoneDigests(self._key.held(), parts)


def test_as_a_side_input(tmp_path: Path, place: Scratch, pipeline: Any, make: Any) -> None:
    with pipeline() as p:
        done = Done.of(p | "Parts" >> beam.Create(make.done(tmp_path, *map(str, range(300)))), place)
        found = p | "Ids" >> beam.Create(["7", "299", "300"]) | beam.ParDo(_Look(done.key), done.side_input)
        assert_that(found, equal_to([("7", True), ("299", True), ("300", False)]))
