"""Rows of a database as records."""

from __future__ import annotations

import base64
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from transforms.database import DatabaseError
from transforms.formats.spans import Reading, Span
from transforms.formats.sql import Source, json_value, parse_source, read_rows, source
from transforms.inputs import find_inputs
from transforms.read import BadRecord, first_fields, read_records, split
from transforms.records import Record


def run(url: str, *statements: str) -> None:
    from sqlalchemy import create_engine

    engine = create_engine(url)
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement, execution_options={"no_parameters": True})
    engine.dispose()


@pytest.fixture
def url(new_database: Callable[[], str]) -> str:
    url = new_database()
    run(
        url,
        "CREATE TABLE reviews (id TEXT, text TEXT, stars BIGINT)",
        "INSERT INTO reviews VALUES ('a', '50% :off ''%s''', 1), ('b', NULL, 2), (NULL, 'c', 3), ('', 'd', 4)",
    )
    return url


def test_a_table(url: str) -> None:
    rows = list(read_rows(Source(url, "reviews")))
    assert rows[:2] == [{"id": "a", "text": "50% :off '%s'", "stars": 1}, {"id": "b", "text": None, "stars": 2}]
    assert len(rows) == 4


def test_a_query_is_taken_as_it_is(url: str) -> None:
    query = "SELECT id, ':x' AS p, stars % 2 AS odd FROM reviews WHERE text LIKE '%:off%' ;"
    assert list(read_rows(Source(url, query))) == [{"id": "a", "p": ":x", "odd": 1}]


def test_records_keep_their_ids_as_text(url: str) -> None:
    [item] = find_inputs([url], "SELECT id, text FROM reviews ORDER BY stars")
    [span] = split(item, 1000, Reading())
    found = list(read_records(span, Reading()))
    assert [record.id for record in found if isinstance(record, Record)] == ["a", "b"]
    assert [bad.reason for bad in found if isinstance(bad, BadRecord)] == ["bad_id", "bad_id"]
    assert [record.position for record in found] == [1, 2, 3, 4]
    assert "tester" not in str(found[0].source)
    numbered = Span(source(url, "SELECT stars FROM reviews"), 0, 0, None, "sql")
    assert [record.id for record in read_records(numbered, Reading("stars"))] == ["1", "2", "3", "4"]
    assert first_fields([item], Reading(), 1) == [{"id": "a", "text": "50% :off '%s'"}]


@pytest.mark.parametrize("query", ["SELECT id, text AS id FROM reviews", "SELECT nothing FROM reviews", "no_table"])
def test_what_is_wrong_with_a_query_is_said_in_a_line(url: str, query: str) -> None:
    with pytest.raises(DatabaseError, match=r"^database [a-z]+://") as caught:
        list(read_rows(Source(url, query)))
    assert "\n" not in str(caught.value)


def test_nothing_can_be_written(url: str) -> None:
    returning = "INSERT INTO reviews (id) VALUES ('new') RETURNING id"
    with pytest.raises(DatabaseError, match=r"readonly|syntax error"):
        list(read_rows(Source(url, returning)))
    assert len(list(read_rows(Source(url, "reviews")))) == 4


def test_a_file_that_is_not_there_is_not_made(tmp_path: Any) -> None:
    pytest.importorskip("sqlalchemy")
    with pytest.raises(DatabaseError, match="unable to open"):
        list(read_rows(Source(f"sqlite:///{tmp_path}/none.db", "t")))
    assert list(tmp_path.iterdir()) == []


def test_types_of_postgresql(postgresql: Any) -> None:
    query = (
        "SELECT '2026-01-31 08:00:00.5+00'::timestamptz AT TIME ZONE 'UTC' AS t, '2026-01-31'::date AS d, "
        "12.50::numeric AS n, 'NaN'::float8 AS nan, '\\x00ff'::bytea AS b, '{\"a\": [1, null]}'::jsonb AS j, "
        "ARRAY[1, NULL] AS l, '1 day'::interval AS i, true AS y, gen_random_uuid() AS u"
    )
    [row] = read_rows(Source(postgresql.new(), query))
    assert len(row.pop("u")) == 36
    assert row == {
        "t": "2026-01-31T08:00:00.500000",
        "d": "2026-01-31",
        "n": "12.50",
        "nan": None,
        "b": base64.b64encode(b"\0\xff").decode(),
        "j": {"a": [1, None]},
        "l": [1, None],
        "i": "1 day, 0:00:00",
        "y": True,
    }


def test_memory_does_not_grow_with_the_rows(postgresql: Any) -> None:
    source = Source(postgresql.new(), "SELECT n AS id, repeat('x', 500) AS text FROM generate_series(1, 100000) n")
    tracemalloc.start()
    count = sum(1 for _row in read_rows(source))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 100_000
    assert peak < 20e6  # of 50 MB of text


def test_paths_come_back() -> None:
    assert parse_source(source("postgresql://h/d", "SELECT '#'")) == Source("postgresql://h/d", "SELECT '#'")
    assert parse_source(source("postgresql://h/d#s.t")) == Source("postgresql://h/d", "s.t")


def test_json_values() -> None:
    assert json_value([float("inf"), (1.5, b"\xff"), {"k": 2**70}]) == [None, [1.5, "/w=="], {"k": 2**70}]
