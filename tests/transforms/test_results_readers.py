"""The results folder as one table, as those see it who read it: every shard has the same columns and types."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

from transforms.layout import Layout
from transforms.published import Published
from transforms.rows import result_schema
from transforms.shards import ShardFormat
from transforms.table import Tables, table_spec
from transforms.write_table import TableWriter

ANSWER = {
    "label": pa.string(),
    "tags": pa.list_(pa.string()),
    "place": pa.struct([("city", pa.string()), ("zip", pa.int64())]),
}
SCHEMA = result_schema(ANSWER, {"stars": pa.int64(), "in_stock": pa.bool_()})


def results(make: Any) -> list[list[dict[str, Any]]]:
    """Rows of three shards: in the first all is null that can be, the last is empty."""
    full = {
        "label": 'a "b"\n,',
        "tags": ["x", None],
        "place": {"city": "\u00e9", "zip": 7},
        "stars": 5,
        "in_stock": True,
    }
    bare = dict.fromkeys(full)
    return [[make.result("a", **bare)], [make.result("b", **full), make.result("c", **{**bare, "label": ""})], []]


def write(folder: Path, name: str, shards: list[list[dict[str, Any]]]) -> list[str]:
    kind = ShardFormat(name, 100, SCHEMA)
    paths = []
    for rows in shards:
        path = kind.new_path(str(folder))
        writer = kind.writer(path)
        for row in rows:
            writer.write(row)
        writer.close()
        paths.append(path)
    return paths


@pytest.fixture
def parquet(tmp_path: Path, make: Any) -> Path:
    write(tmp_path / "results", "parquet", results(make))
    return tmp_path / "results"


class TestParquet:
    def test_pyarrow(self, parquet: Path) -> None:
        found = pyarrow.dataset.dataset(str(parquet)).to_table().sort_by("id")
        assert found.schema.equals(SCHEMA)
        assert found.column("tags").to_pylist() == [None, ["x", None], None]
        assert found.column("place").to_pylist() == [None, {"city": "\u00e9", "zip": 7}, None]
        assert found.column("label").to_pylist() == [None, 'a "b"\n,', ""]

    def test_duckdb(self, parquet: Path) -> None:
        duckdb = pytest.importorskip("duckdb")
        found = duckdb.sql(f"SELECT id, tags[1], place.zip, stars, in_stock FROM '{parquet}/*.parquet' ORDER BY id")
        assert found.fetchall() == [
            ("a", None, None, None, None),
            ("b", "x", 7, 5, True),
            ("c", None, None, None, None),
        ]
        types = dict(
            duckdb.sql(f"DESCRIBE SELECT * FROM '{parquet}/*.parquet'").project("column_name, column_type").fetchall()
        )
        assert types["place"] == "STRUCT(city VARCHAR, zip BIGINT)"
        assert (types["tags"], types["stars"], types["in_stock"]) == ("VARCHAR[]", "BIGINT", "BOOLEAN")
        assert types["finished_at"] == "TIMESTAMP WITH TIME ZONE"

    def test_pandas(self, parquet: Path) -> None:
        pandas = pytest.importorskip("pandas")
        found = pandas.read_parquet(parquet).sort_values("id")
        assert found["id"].tolist() == ["a", "b", "c"]
        assert found["place"].tolist()[1] == {"city": "\u00e9", "zip": 7}
        assert str(found["finished_at"].dtype) == "datetime64[ms, UTC]"

    def test_polars(self, parquet: Path) -> None:
        polars = pytest.importorskip("polars")
        found = polars.read_parquet(parquet / "*.parquet").sort("id")
        assert found["tags"].to_list()[1] == ["x", None]
        assert found["place"].to_list()[1] == {"city": "\u00e9", "zip": 7}
        assert found["stars"].dtype == polars.Int64


class TestText:
    """CSV and JSON Lines. That null and empty text stay apart is up to the reader."""

    @pytest.fixture
    def csv(self, tmp_path: Path, make: Any) -> Path:
        write(tmp_path / "csv", "csv", results(make))
        return tmp_path / "csv"

    def test_csv_in_duckdb(self, csv: Path) -> None:
        duckdb = pytest.importorskip("duckdb")
        options = "header = true, allow_quoted_nulls = false, all_varchar = true"
        found = duckdb.sql(
            f"SELECT id, label, tags, stars FROM read_csv('{csv}/*.csv', {options}) ORDER BY id"
        ).fetchall()
        assert found == [("a", None, None, None), ("b", 'a "b"\n,', '["x",null]', "5"), ("c", "", None, None)]

    def test_csv_in_pandas(self, csv: Path) -> None:
        pandas = pytest.importorskip("pandas")
        found = pandas.concat([pandas.read_csv(path) for path in sorted(csv.iterdir())]).sort_values("id")
        assert found["id"].tolist() == ["a", "b", "c"]
        assert found["label"].tolist()[1] == 'a "b"\n,'
        assert json.loads(found["place"].tolist()[1]) == {"city": "\u00e9", "zip": 7}

    def test_csv_in_polars(self, csv: Path) -> None:
        polars = pytest.importorskip("polars")
        found = polars.read_csv(csv / "*.csv", infer_schema=False).sort("id")
        assert found["label"].to_list() == [None, 'a "b"\n,', ""]

    def test_csv_in_pyarrow(self, csv: Path) -> None:
        from pyarrow import csv as arrow

        texts = dict.fromkeys(SCHEMA.names, pa.string())
        convert = arrow.ConvertOptions(column_types=texts, strings_can_be_null=True, quoted_strings_can_be_null=False)
        kind = pyarrow.dataset.CsvFileFormat(arrow.ParseOptions(newlines_in_values=True), convert_options=convert)
        found = pyarrow.dataset.dataset(str(csv), pa.schema(list(texts.items())), format=kind).to_table().sort_by("id")
        assert found.column("label").to_pylist() == [None, 'a "b"\n,', ""]

    def test_jsonl(self, tmp_path: Path, make: Any) -> None:
        write(tmp_path / "jsonl", "jsonl", results(make)[:2])
        duckdb = pytest.importorskip("duckdb")
        polars = pytest.importorskip("polars")
        pandas = pytest.importorskip("pandas")
        found = duckdb.sql(f"SELECT id, tags[1], place.zip FROM read_json('{tmp_path}/jsonl/*.jsonl') ORDER BY id")
        assert found.fetchall() == [("a", None, None), ("b", "x", 7), ("c", None, None)]
        paths = sorted((tmp_path / "jsonl").iterdir())
        lines = polars.concat([polars.read_ndjson(path) for path in paths], how="diagonal_relaxed").sort("id")
        assert lines["label"].to_list() == [None, 'a "b"\n,', ""]
        frames = pandas.concat([pandas.read_json(path, lines=True) for path in paths])
        assert sorted(frames["id"]) == ["a", "b", "c"]


COLUMNS = ["id", "label", "stars", "absent", "cost_usd", "finished_at"]


@pytest.mark.parametrize("name", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize("typed", [True, False])
def test_results_of_files(tmp_path: Path, make: Any, name: str, typed: bool) -> None:
    layout = Layout(str(tmp_path))
    write(Path(layout.results), name, results(make)[: 3 if name != "jsonl" else 2])
    types = {field.name: field.type for field in SCHEMA} if typed else {}
    published = Published(layout.shards(layout.results), types=types)
    check(rows_of(published), str if name == "csv" and not typed else int)
    if typed:
        assert [row["tags"] for row in rows_of(published, ["id", "tags"])] == [None, ["x", None], None]
        assert rows_of(published, ["id", "place"])[1]["place"] == {"city": "\u00e9", "zip": 7}


def test_results_of_a_table(new_database: Callable[[], str], make: Any) -> None:
    spec = table_spec(f"{new_database()}#t", SCHEMA)
    tables = Tables(spec, write=True)
    tables.create()
    tables.close()
    assert list(Published(table=spec).results(COLUMNS)) == []
    writer = TableWriter(spec, "ok")
    for row in (row for shard in results(make) for row in shard):
        writer.write(row)
    writer.close()
    writer.disconnect()
    check(rows_of(Published(table=spec)), int)
    assert Published(table=spec).columns() == SCHEMA.names


def rows_of(published: Published, columns: list[str] = COLUMNS) -> list[dict[str, Any]]:
    found = [row for batch in published.results(columns) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: row["id"])


def check(rows: list[dict[str, Any]], number: type) -> None:
    rows.sort(key=lambda row: row["id"])
    assert [list(row) for row in rows] == [COLUMNS] * 3
    assert [row["label"] for row in rows] == [None, 'a "b"\n,', ""]
    assert [row["stars"] for row in rows] == [None, number(5), None]
    assert [(row["absent"], row["cost_usd"]) for row in rows] == [(None, 0.25)] * 3
    assert {row["finished_at"].isoformat() for row in rows} == {"2026-01-31T08:00:00.123000+00:00"}
