"""Rows -> tables, and what stands there afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from transforms.rows import ARROW_TYPES, result_schema
from transforms.table import Tables, TableSpec, table_spec
from transforms.tally import total
from transforms.write_table import TableWriter, WriteTable

ANSWER = {
    "label": pa.string(),
    "score": pa.float64(),
    "tags": pa.list_(pa.string()),
    "place": pa.struct([("city", pa.string()), ("lines", pa.list_(pa.int64()))]),
}
CARRIED = {f"in_{name}": kind for name, kind in ARROW_TYPES.items()}


def read(url: str, statement: str) -> list[dict[str, Any]]:
    from sqlalchemy import create_engine, text

    engine = create_engine(url)
    with engine.connect() as connection:
        rows = [dict(row) for row in connection.execute(text(statement)).mappings()]
    engine.dispose()
    return rows


class Place:
    """A pair of tables for one test."""

    def __init__(self, url: str, schema: pa.Schema) -> None:
        self.url = url
        self.spec = table_spec(f"{url}#t", schema)
        tables = Tables(self.spec, write=True)
        tables.create()
        tables.close()

    def write(self, kind: str, *rows: dict[str, Any]) -> None:
        writer = TableWriter(self.spec, kind)
        for row in rows:
            writer.write(row)
        writer.close()
        writer.disconnect()

    def results(self) -> list[dict[str, Any]]:
        return read(self.url, "SELECT * FROM t")

    def ids(self) -> list[str]:
        return sorted(row["id"] for row in self.results())

    def failures(self) -> list[tuple[Any, ...]]:
        rows = read(self.url, "SELECT id, reason, message FROM t_failures")
        return sorted((tuple(row.values()) for row in rows), key=str)


@pytest.fixture
def place(new_database: Callable[[], str]) -> Place:
    return Place(new_database(), result_schema(ANSWER, CARRIED))


class TestResults:
    def test_values_have_their_types(self, place: Place, make: Any) -> None:
        row = make.result(
            "a",
            label="caf\u00e9\u2028'\"",
            score=1,
            tags=["a", None],
            place={"city": "x", "lines": [1]},
            in_integer=2**63 - 1,
            in_number=3,
            in_boolean=False,
            in_json={"b": [1], "a": None},
            in_string=1.5,
        )
        place.write("ok", row)
        [found] = place.results()
        if place.spec.is_postgresql:
            assert found["tags"] == ["a", None]
            assert found["place"] == {"city": "x", "lines": [1]}
            assert found["finished_at"] == datetime(2026, 1, 31, 8, 0, 0, 123000, timezone.utc)
            assert found["in_boolean"] is False
        else:
            assert json.loads(found["tags"]) == ["a", None]
            assert found["finished_at"] == make.finished_at
            assert found["in_boolean"] == 0
        assert (found["label"], found["score"], found["in_integer"]) == (row["label"], 1.0, 2**63 - 1)
        assert (found["in_json"], found["in_string"]) == ('{"b":[1],"a":null}', "1.5")
        assert (found["cached_tokens"], found["cost_usd"]) == (None, 0.25)

    def test_missing_is_null_in_every_column(self, place: Place) -> None:
        place.write("ok", {"id": "a"})
        assert place.results() == [{**dict.fromkeys(place.spec.schema.names), "id": "a"}]

    def test_writing_twice_is_writing_once_and_the_last_stands(self, place: Place, make: Any) -> None:
        place.write("ok", make.result("a", label="x"), make.result("b", label="y"), make.result("a", label="z"))
        place.write("ok", make.result("b", label="new"))
        assert sorted((row["id"], row["label"]) for row in place.results()) == [("a", "z"), ("b", "new")]

    def test_a_result_frees_its_id_from_failures_but_not_from_a_repeated_one(self, place: Place, make: Any) -> None:
        repeated = make.failure("a", "duplicate_id", source={"file": "f", "position": 9})
        place.write("failed", make.failure("a"), make.failure("b"), repeated)
        place.write("ok", make.result("a"))
        assert place.failures() == [("a", "duplicate_id", "no"), ("b", "timeout", "no")]

    def test_two_at_once(self, place: Place, make: Any) -> None:
        """An engine may run one bundle in two places, and one of them may see a row fail."""
        rows = [make.result(f"r{number}") for number in range(2500)]
        failed = [make.failure(f"r{number}") for number in range(2500)]
        work = [("ok", rows), ("ok", rows[::-1]), ("failed", failed)]
        threads = [threading.Thread(target=place.write, args=(kind, *some)) for kind, some in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert place.ids() == sorted(row["id"] for row in rows)
        assert place.failures() == []


class TestFailures:
    def test_a_failure_of_a_row_that_has_a_result_is_not_written(self, place: Place, make: Any) -> None:
        place.write("ok", make.result("a"))
        place.write("failed", make.failure("a"), make.failure("b"), make.failure("a", "duplicate_id"))
        assert place.failures() == [("a", "duplicate_id", "no"), ("b", "timeout", "no")]

    def test_a_new_one_takes_the_place_of_the_old(self, place: Place, make: Any) -> None:
        place.write("failed", make.failure("a", message="first"), make.failure("b"))
        place.write("failed", make.failure("a", "refusal", message="second"))
        assert place.failures() == [("a", "refusal", "second"), ("b", "timeout", "no")]

    def test_a_row_that_is_set_aside_now_leaves_its_earlier_failure(self, place: Place, make: Any) -> None:
        place.write("failed", make.failure("a"))
        place.write("failed", make.failure("a", "oversized_input"))
        assert place.failures() == [("a", "oversized_input", "no")]

    def test_a_repeated_id_leaves_the_failure_of_the_first(self, place: Place, make: Any) -> None:
        place.write("failed", make.failure("a", "refusal"))
        place.write("failed", make.failure("a", "duplicate_id"))
        assert [reason for _id, reason, _message in place.failures()] == ["duplicate_id", "refusal"]

    def test_those_without_an_id_are_told_apart_by_their_place(self, place: Place, make: Any) -> None:
        rows = [make.failure(None, "bad_id", source={"file": "f", "position": at}) for at in (1, 2)]
        place.write("failed", *rows)
        place.write("failed", *rows)
        assert place.failures() == [(None, "bad_id", "no")] * 2

    def test_any_input_is_kept(self, place: Place, make: Any) -> None:
        nasty = {"k\0": ["\0", {"x": 10**30, "y": 0.1, "": None}], "t": "\u2028\U0001f600"}
        place.write(
            "failed",
            make.failure("a", input=nasty, message="m\0"),
            make.failure(None, "bad_record", input="text"),
            make.failure("n\0", "bad_id", input=None),
        )
        found = {row["id"]: row for row in read(place.url, "SELECT * FROM t_failures")}
        assert len(found) == 3
        text = found["a"]["input"] if place.spec.is_postgresql else json.loads(found["a"]["input"])
        assert json.loads(json.dumps(text).replace("\\ufffd", "\\u0000")) == nasty
        assert found["a"]["message"] == ("m\ufffd" if place.spec.is_postgresql else "m\0")


@given(rows=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.text(), min_size=1))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
def test_any_text_is_read_back(place: Place, rows: dict[str, str]) -> None:
    """NUL aside, which PostgreSQL has not: ids with it never get here."""
    nul = "\0" if not place.spec.is_postgresql else "\ufffd"
    wanted = {key.replace("\0", nul): text.replace("\0", nul) for key, text in rows.items()}
    place.write("ok", *({"id": id, "output_text": text} for id, text in wanted.items()))
    found = {row["id"]: row["output_text"] for row in place.results()}
    assert {id: found[id] for id in wanted} == wanted


def test_any_name_can_be_a_columns(new_database: Callable[[], str]) -> None:
    names = ["a b", "100%", "x(y)", 'quo"te', "a:b", "a.b", "c0", "select", "caf\u00e9", "%s", "back\\slash"]
    schema = result_schema(dict.fromkeys(names, pa.string()), {})
    place = Place(new_database(), schema)
    place.write("ok", {"id": "a", **{name: name for name in names}})
    [found] = place.results()
    assert {name: found[name] for name in names} == {name: name for name in names}
    tables = Tables(place.spec)
    tables.check()
    tables.close()


class TestPipeline:
    def test_rows_tallies_and_counts(
        self, new_database: Callable[[], str], pipeline: Callable[[], Any], make: Any
    ) -> None:
        place = Place(new_database(), make.schema())
        rows = [make.result(str(number)) for number in range(10)]
        with pipeline() as p:
            found = p | beam.Create(rows) | WriteTable(place.spec, "ok")
            assert_that(found["staged"] | beam.CombineGlobally(sum), equal_to([10]))
            tally = found["tally"] | beam.CombineGlobally(total) | beam.Map(lambda tally: (tally["ok"], tally["calls"]))
            assert_that(tally, equal_to([(10, 10)]), label="tally")
        assert place.ids() == sorted(row["id"] for row in rows)

    def test_a_database_that_is_not_there_ends_it(
        self, pipeline: Callable[[], Any], make: Any, monkeypatch: Any
    ) -> None:
        from transforms import database

        monkeypatch.setattr(database, "_ATTEMPTS", 2)
        spec = TableSpec("postgresql+psycopg://user:${SOME_PASSWORD}@127.0.0.1:1/db", "t", make.schema())
        monkeypatch.setenv("SOME_PASSWORD", "hunter2hunter2")
        with pytest.raises(Exception, match=r"database postgresql://127\.0\.0\.1:1/db: ") as caught, pipeline() as p:
            p | beam.Create([make.result("a")]) | WriteTable(spec, "ok")
        assert "hunter2" not in str(caught.value)
