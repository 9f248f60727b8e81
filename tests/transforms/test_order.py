"""Rows in the order of the input: the sorting, without a pipeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms import order
from transforms.order import SortedRuns, merge_runs
from transforms.records import PLACE
from transforms.shards import ShardFormat


def sort(folder: Path, places: list[int], run_rows: int, rows_per_shard: int) -> list[list[int]]:
    """The rows of each shard, by what they hold."""
    runs = SortedRuns(str(folder), run_rows)
    for place in places:
        runs.write({"id": str(place), "text": "caf\u00e9\n\u2028", PLACE: place})
    runs.close()
    shards = merge_runs(runs.finished, ShardFormat("jsonl", rows_per_shard), str(folder))
    assert [shard.path for shard in shards] == sorted(shard.path for shard in shards)
    found = []
    for shard in shards:
        rows: list[dict[str, Any]] = [json.loads(line) for line in Path(shard.path).read_bytes().splitlines()]
        assert all(row.keys() == {"id", "text"} and row["text"] == "caf\u00e9\n\u2028" for row in rows)
        assert len(rows) == shard.rows
        found.append([int(row["id"]) for row in rows])
    return found


@given(
    places=st.lists(st.integers(0, 2**62), unique=True, max_size=60),
    run_rows=st.integers(1, 20),
    rows_per_shard=st.integers(1, 20),
)
def test_all_rows_come_out_sorted_in_full_shards(
    tmp_path_factory: pytest.TempPathFactory, places: list[int], run_rows: int, rows_per_shard: int
) -> None:
    found = sort(tmp_path_factory.mktemp("order"), places, run_rows, rows_per_shard)

    assert [place for shard in found for place in shard] == sorted(places)
    assert all(len(shard) == rows_per_shard for shard in found[:-1])


def test_more_runs_than_are_opened_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "FAN_IN", 3)

    assert sort(tmp_path, list(range(100, 0, -1)), 2, 1000) == [list(range(1, 101))]


def test_rows_of_a_broken_bundle_are_let_go(tmp_path: Path) -> None:
    runs = SortedRuns(str(tmp_path), 10)
    runs.write({"id": "a", PLACE: 1})
    runs.discard()
    runs.close()

    assert runs.finished == []
