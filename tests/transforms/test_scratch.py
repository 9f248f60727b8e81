"""Files that hold bytes by partition, for steps of one run to tell each other."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transforms.journal import HEADER_FILE
from transforms.scratch import Part, Scratch, ranges

COUNT = 7
BLOBS = st.dictionaries(st.integers(0, COUNT - 1), st.binary(max_size=9))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BLOBS, st.integers(0, COUNT), st.integers(0, COUNT))
def test_a_range_is_read_as_it_was_written(tmp_path: Path, blobs: dict[int, bytes], start: int, stop: int) -> None:
    scratch = Scratch(str(tmp_path), of_run=False)
    part = scratch.write(blobs.items(), COUNT)
    if part is None:
        assert not blobs
        return
    wanted = range(start, max(start, stop))
    assert dict(scratch.read(part, wanted)) == {n: blob for n, blob in blobs.items() if n in wanted and blob}


@given(st.lists(st.lists(st.integers(0, 9), min_size=COUNT, max_size=COUNT), max_size=3), st.integers(1, 30))
def test_ranges_are_all_partitions_and_hold_no_more_than_is_read_at_once(sizes: list[list[int]], most: int) -> None:
    parts = [Part("p", np.array([0, *itertools.accumulate(each)], np.uint64).tobytes()) for each in sizes]
    found = ranges(parts, COUNT, most)
    assert [number for each in found for number in each] == list(range(COUNT))
    for each in found:
        assert len(each) == 1 or sum(size[number] for size in sizes for number in each) <= most


def test_those_of_a_run_go_with_its_journal(tmp_path: Path) -> None:
    """An engine may repeat a run that is published: nothing is written into a folder that has gone, or found there."""
    folder = tmp_path / "run"
    scratch = Scratch(str(folder))
    assert scratch.write([(0, b"a")], COUNT) is None
    assert not folder.exists()
    folder.mkdir()
    (folder / HEADER_FILE).write_text("{}")
    part = scratch.write([(0, b"a"), (3, b"b")], COUNT)
    assert part is not None
    assert dict(scratch.read(part, range(COUNT))) == {0: b"a", 3: b"b"}
    Path(part.path).unlink()
    with pytest.raises(FileNotFoundError):  # as long as the run is on, that is a fault
        list(scratch.read(part, range(COUNT)))
    (folder / HEADER_FILE).unlink()
    assert list(scratch.read(part, range(COUNT))) == []


def test_on_a_store(s3: object) -> None:
    scratch = Scratch(f"{s3.root}/scratch", of_run=False)  # type: ignore[attr-defined]
    part = scratch.write([(1, b"one"), (2, b"two"), (6, b"six")], COUNT)
    assert part is not None
    assert list(scratch.read(part, range(2, COUNT))) == [(2, b"two"), (6, b"six")]
