"""Rows -> shards."""

import json
import tempfile
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from transforms import shards as shard_files
from transforms.records import utc
from transforms.rows import ARROW_TYPES, result_schema
from transforms.shards import JsonlWriter, ParquetWriter, Roll, ShardFormat, Staged, join_files, pack
from transforms.tally import total
from transforms.write import WriteShards

ANSWER = {
    "label": pa.string(),
    "score": pa.float64(),
    "tags": pa.list_(pa.string()),
    "place": pa.struct([("city", pa.string()), ("lines", pa.list_(pa.int64()))]),
}
SCHEMA = result_schema(ANSWER, {f"in_{name}": kind for name, kind in ARROW_TYPES.items()})


def shards(name: str, rows_per_shard: int = 3) -> ShardFormat:
    return ShardFormat(name, rows_per_shard, None if name == "jsonl" else SCHEMA)


def write_rows(writer: Any, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        writer.write(row)
    writer.close()


class TestParquet:
    def written(self, path: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        write_rows(ParquetWriter(str(path), SCHEMA), rows)
        assert pq.read_schema(path).equals(SCHEMA)
        assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"
        return list(pq.read_table(path).to_pylist())

    def test_values_have_their_types(self, tmp_path: Path, make: Any) -> None:
        answer = {
            "label": "caf\u00e9\0\u2028",
            "score": 0.5,
            "tags": ["a", None],
            "place": {"city": "x", "lines": [1, 2]},
        }
        carried = {
            "in_string": "s",
            "in_integer": 2**63 - 1,
            "in_number": 3,
            "in_boolean": False,
            "in_json": {"b": [1, "\u00e9"], "a": None},
        }
        (found,) = self.written(tmp_path / "a.parquet", [make.result("a", **answer, **carried)])
        assert {name: found[name] for name in answer} == answer
        assert found["in_integer"] == 2**63 - 1
        assert (found["in_number"], type(found["in_number"])) == (3.0, float)
        assert found["in_boolean"] is False
        assert found["in_json"] == '{"b":[1,"\u00e9"],"a":null}'
        assert found["finished_at"] == datetime(2026, 1, 31, 8, 0, 0, 123000, timezone.utc)
        assert (found["prompt_tokens"], found["cached_tokens"], found["cost_usd"]) == (20, None, 0.25)

    def test_text_columns_hold_nested_values_as_json(self, tmp_path: Path, make: Any) -> None:
        rows = [make.result(str(value), in_string=value) for value in ("x", [1], {"k": None}, 1.5, True, 10**30, None)]
        found = [row["in_string"] for row in self.written(tmp_path / "a.parquet", rows)]
        assert found == ["x", "[1]", '{"k":null}', "1.5", "true", "1" + "0" * 30, None]

    def test_missing_and_null_are_null_and_what_has_no_column_is_left_out(self, tmp_path: Path) -> None:
        (found,) = self.written(tmp_path / "a.parquet", [{"id": "a", "other": 1}])
        assert found == {**dict.fromkeys(SCHEMA.names), "id": "a"}

    def test_more_rows_than_a_row_group(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(shard_files, "_ROWS_PER_GROUP", 4)
        rows = [{"id": str(number)} for number in range(10)]
        found = self.written(tmp_path / "a.parquet", rows)
        assert [row["id"] for row in found] == [row["id"] for row in rows]
        metadata = pq.ParquetFile(tmp_path / "a.parquet").metadata
        assert [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)] == [4, 4, 2]

    def test_a_clash_of_names_is_told(self) -> None:
        with pytest.raises(ValueError, match="'model'"):
            result_schema({"model": pa.string()}, {})
        with pytest.raises(ValueError, match="'label'"):
            result_schema({"label": pa.string()}, {"label": pa.string()})
        with pytest.raises(ValueError, match="'id'"):
            result_schema({}, {"id": pa.string()})

    def test_time_is_written_as_it_is_read(self) -> None:
        assert utc(1769846400.1234) == "2026-01-31T08:00:00.123Z"
        assert utc(0) == "1970-01-01T00:00:00.000Z"


class TestJsonl:
    def test_lines_that_other_readers_survive(self, tmp_path: Path) -> None:
        rows = [{"id": "a", "t": f"one{mark}two"} for mark in "\u2028\u2029\u0085\n\r\0\x1c\x0b\U0001f600"]
        path = tmp_path / "a.jsonl"
        write_rows(JsonlWriter(str(path)), rows)
        content = path.read_bytes()
        text = content.decode()
        assert not set(text) & set("\u2028\u2029\u0085\r\0\x1c\x0b")
        assert "\\u2028" in text
        assert "\\u0085" in text
        assert "\U0001f600" in text
        assert [json.loads(line) for line in text.splitlines()] == rows
        assert content.endswith(b"\n")

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), [-float("inf")]])
    def test_strict(self, tmp_path: Path, value: Any) -> None:
        writer = JsonlWriter(str(tmp_path / "a.jsonl"))
        with pytest.raises(ValueError, match="not JSON compliant"):
            writer.write({"id": "a", "x": value})
        writer.close()

    @given(st.dictionaries(st.text(), st.text() | st.integers() | st.none() | st.lists(st.text())))
    def test_any_row_is_one_line(self, row: dict[str, Any]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.jsonl")
            write_rows(JsonlWriter(str(path)), [row, row])
            lines = path.read_bytes().decode().splitlines()
        assert [json.loads(line) for line in lines] == [row, row]


@pytest.mark.parametrize("name", ["parquet", "jsonl", "csv"])
class TestRoll:
    @pytest.mark.parametrize(("count", "sizes"), [(0, []), (1, [1]), (3, [3]), (4, [3, 1]), (9, [3, 3, 3])])
    def test_files_of_up_to_so_many_rows(
        self, tmp_path: Path, make: Any, name: str, count: int, sizes: list[int]
    ) -> None:
        roll = Roll(shards(name), str(tmp_path))
        write_rows(roll, [{"id": str(number)} for number in range(count)])
        roll.close()
        assert [item.rows for item in roll.finished] == sizes
        assert len({item.path for item in roll.finished}) == len(sizes)
        found = [row["id"] for item in roll.finished for row in make.rows(item.path)]
        assert found == [str(number) for number in range(count)]
        assert all(item.path.endswith(f".{name}") for item in roll.finished)

    def test_a_file_that_cannot_be_closed_is_let_go_all_the_same(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Any, name: str
    ) -> None:
        """As on a full disk, or where a worker is ended while another thread is writing."""
        roll = Roll(shards(name), str(tmp_path))
        roll.write({"id": "a"})
        discard = type(roll._writer).discard

        def refuse(writer: Any) -> None:
            discard(writer)
            raise OSError("full")

        with monkeypatch.context() as patch:
            patch.setattr(type(roll._writer), "discard", refuse)
            roll.discard()
        roll.write({"id": "b"})
        roll.close()
        assert [row["id"] for item in roll.finished for row in make.rows(item.path)] == ["b"]

    def test_join_keeps_all_rows_in_order(self, tmp_path: Path, make: Any, name: str) -> None:
        rows = [
            make.result(str(number), tags=["x"] * number, place={"city": "\u2028", "lines": [number]})
            for number in range(7)
        ]
        group = []
        for part in (rows[:3], rows[3:4], rows[4:]):
            roll = Roll(shards(name, 100), str(tmp_path))
            write_rows(roll, part)
            group += roll.finished
        joined = join_files(group, shards(name, 100), str(tmp_path))
        assert joined.rows == 7
        assert joined.path not in {item.path for item in group}
        parts = [row for item in group for row in make.rows(item.path)]
        found = make.rows(joined.path)
        assert found == parts
        assert [row["id"] for row in found] == [row["id"] for row in rows]
        if name == "parquet":
            assert pq.read_schema(joined.path).equals(SCHEMA)

    def test_a_single_file_is_left_as_it_is(self, tmp_path: Path, name: str) -> None:
        item = Staged(f"{tmp_path}/x.{name}", 2)
        assert join_files([item], shards(name), str(tmp_path)) is item
        assert list(tmp_path.iterdir()) == []


@given(st.lists(st.integers(1, 15), max_size=40), st.integers(1, 12))
def test_groups_hold_every_file_once_and_never_too_many_rows(sizes: list[int], rows_per_shard: int) -> None:
    staged = [Staged(f"f{number:03d}", rows) for number, rows in enumerate(sizes)]
    groups = pack(iter(staged), rows_per_shard)
    assert sorted(item for group in groups for item in group) == sorted(staged)
    for group in groups:
        assert len(group) == 1 or sum(item.rows for item in group) <= rows_per_shard
    assert pack(reversed(staged), rows_per_shard) == groups  # whatever order an engine gives them in
    # No two neighbours could have been one: at most twice as many files as there have to be.
    assert len(groups) <= 2 * -(-sum(sizes) // rows_per_shard) + len([size for size in sizes if size > rows_per_shard])


class TestPipeline:
    @pytest.mark.parametrize("name", ["parquet", "jsonl", "csv"])
    def test_small_bundles_become_few_files(
        self, tmp_path: Path, pipeline: Callable[[], Any], make: Any, name: str
    ) -> None:
        rows = [make.result(str(number), cost_usd=None if number else 0.5) for number in range(10)]
        with pipeline() as p:
            found = p | beam.Create(rows) | WriteShards(shards(name, 4), str(tmp_path), "ok")

            def check(staged: list[Staged]) -> None:
                assert all(item.rows <= 4 for item in staged)
                read = [make.rows(item.path) for item in staged]
                assert [len(part) for part in read] == [item.rows for item in staged]
                assert sorted(row["id"] for part in read for row in part) == sorted(row["id"] for row in rows)

            assert_that(found["staged"], check)
            tally = found["tally"] | beam.CombineGlobally(total)
            expected = {
                "ok": 10,
                "calls": 10,
                "prompt_tokens": 200,
                "completion_tokens": 50,
                "cost_usd": 0.5,
                "cost_usd_unknown": 9,
            }
            assert_that(tally, equal_to([expected]), label="tally")

    def test_no_rows_no_files(self, tmp_path: Path, pipeline: Callable[[], Any]) -> None:
        with pipeline() as p:
            found = p | beam.Create([]) | WriteShards(shards("jsonl"), str(tmp_path), "failed")
            assert_that(found["staged"], equal_to([]))
            assert_that(found["tally"] | beam.CombineGlobally(total), equal_to([{}]), label="tally")
        assert list(tmp_path.iterdir()) == []

    def test_failures_are_counted_by_reason(self, tmp_path: Path, pipeline: Callable[[], Any], make: Any) -> None:
        rows = [make.failure("a"), make.failure("b"), make.failure(None, "bad_id", attempts=0)]
        with pipeline() as p:
            found = p | beam.Create(rows) | WriteShards(shards("jsonl"), str(tmp_path), "failed")
            tally = found["tally"] | beam.CombineGlobally(total)
            expected = {
                "failed": 3,
                "failures_by_reason": {"timeout": 2, "bad_id": 1},
                "calls": 2,
                "prompt_tokens_unknown": 2,
                "completion_tokens_unknown": 2,
                "cost_usd_unknown": 2,
            }
            assert_that(tally, equal_to([expected]))
