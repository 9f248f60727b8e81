"""Results whose columns have changed between runs stay one table for all who read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from transforms import files
from transforms.layout import Layout
from transforms.recover import finish_commits
from transforms.rows import result_schema
from transforms.same_columns import same_columns
from transforms.shards import ParquetWriter

LABEL = {"label": pa.string()}
RUN = "20260102T000000-abcdef"


def write(path: Path, rows: list[dict[str, Any]], schema: pa.Schema) -> None:
    writer = ParquetWriter(str(path), schema)
    for row in rows:
        writer.write(row)
    writer.close()


@pytest.fixture
def layout(tmp_path: Path, make: Any) -> Layout:
    """Two shards with `stars`, one of a run before without."""
    old = [make.result(f"old-{n}", label="x") for n in range(3)]
    write(tmp_path / "results" / "20260101T000000-a-00000-of-00001.parquet", old, result_schema(LABEL, {}))
    later = [make.result("new", label="y", stars=4)]
    schema = result_schema(LABEL, {"stars": pa.int64()})
    for number in (0, 1):
        write(tmp_path / "results" / f"20260101T000001-b-0000{number}-of-00002.parquet", later, schema)
    return Layout(str(tmp_path))


def test_on_a_store_too(s3: Any, layout: Layout) -> None:
    far = Layout(f"{s3.root}/out")
    for path in layout.shards(layout.results):
        s3.put(f"out/results/{files.name(path)}", Path(path).read_bytes())
    schema = same_columns(far, RUN, result_schema(LABEL, {"city": pa.string()}))
    assert s3.keys() == [f"out/results/{files.name(path)}" for path in layout.shards(layout.results)]
    for path in far.shards(far.results):
        with files.open_read(path) as stream:
            assert set(pq.read_schema(stream).names) == set(schema.names) >= {"stars", "city"}


def contents(layout: Layout) -> dict[str, bytes]:
    return {files.name(path): Path(path).read_bytes() for path in layout.shards(layout.results)}


def test_what_a_file_lacks_is_added(layout: Layout) -> None:
    schema = same_columns(layout, RUN, result_schema(LABEL, {"city": pa.string()}, expected=True))

    assert {"stars", "city", "expected"} < set(schema.names)
    shards = layout.shards(layout.results)
    assert len(shards) == 3
    for path in shards:
        assert set(ds.dataset(path).schema.names) == set(schema.names)
    rows = ds.dataset(shards).to_table().to_pylist()
    assert [(row["id"], row["label"], row["stars"], row["expected"]) for row in rows] == [
        *((f"old-{n}", "x", None, None) for n in range(3)),
        *([("new", "y", 4, None)] * 2),
    ]
    pattern = f"{layout.results}/*.parquet"
    assert duckdb.sql(f"select count(*), count(stars), count(expected) from '{pattern}'").fetchall() == [(5, 2, 0)]
    assert not Path(layout.stages, RUN).exists()


def test_files_that_lack_nothing_are_left_alone(layout: Layout) -> None:
    same_columns(layout, RUN, result_schema(LABEL, {"stars": pa.int64()}))
    before = contents(layout)
    wider = same_columns(layout, RUN, result_schema(LABEL, {}))
    assert contents(layout) == before
    assert "stars" in wider.names  # the run that begins has it too


def test_a_column_of_another_type_keeps_it(layout: Layout) -> None:
    before = contents(layout)
    same_columns(layout, RUN, result_schema(LABEL, {"stars": pa.string()}))
    after = contents(layout)
    assert [name for name in before if before[name] != after[name]] == ["20260101T000000-a-00000-of-00001.parquet"]


def test_a_crash_between_two_files_is_made_good(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = []

    def break_at_the_second(source: str, target: str) -> None:
        if target.endswith(".parquet"):
            moved.append(target)
            if len(moved) == 2:
                raise OSError("power cut")
        real(source, target)

    real = files.move
    with monkeypatch.context() as patch:
        patch.setattr(files, "move", break_at_the_second)
        with pytest.raises(OSError, match="power cut"):
            same_columns(layout, RUN, result_schema(LABEL, {}, expected=True))
    finish_commits(layout)
    assert ds.dataset(layout.shards(layout.results)).to_table(columns=["id", "expected"]).num_rows == 5
    assert all("expected" in ds.dataset(path).schema.names for path in layout.shards(layout.results))


def test_jsonl_is_left_alone(tmp_path: Path, make: Any) -> None:
    make.jsonl(tmp_path / "results" / "a-00000-of-00001.jsonl", [make.result("a")])
    layout = Layout(str(tmp_path))
    before = contents(layout)
    schema = result_schema(LABEL, {})
    assert same_columns(layout, RUN, schema) == schema
    assert contents(layout) == before


def test_a_damaged_file_is_named(layout: Layout) -> None:
    path = Path(layout.results, "20260101T000009-c-00000-of-00001.parquet")
    path.write_bytes(b"PAR1 no")
    with pytest.raises(ValueError, match=path.name):
        same_columns(layout, RUN, result_schema(LABEL, {}))
