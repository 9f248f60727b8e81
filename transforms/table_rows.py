"""The rows of a pair of tables, read again as they were when they came to be written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from transforms.database import DatabaseError, connect, reporting, shown, stream
from transforms.records import Row, utc
from transforms.table import FAILURES, KEY, TableSpec, define

if TYPE_CHECKING:
    from sqlalchemy import Engine, Table


def result_rows(
    spec: TableSpec, columns: Sequence[str], most: int, run_id: str | None = None
) -> Iterator[list[dict[str, Any]]]:
    """The results in lists of up to `most` rows, which have those of `columns` that the table has, in the order of
    their ids; with `run_id` those of that run. Numbers, lists and objects are what they were; times are datetimes from
    PostgreSQL, text from SQLite. Raises DatabaseError, ValueError where `connect` does."""
    from sqlalchemy import select

    engine = connect(spec.url)
    try:
        table = _results(engine, spec)
        query = select(*(column for column in table.columns if column.name in (*columns, "id")))
        if run_id is not None:
            query = query.where(table.columns["run_id"] == run_id)
        rows = stream(engine, spec.url, query.order_by(table.columns["id"]))
        while chunk := list(islice(rows, most)):
            yield chunk
    finally:
        engine.dispose()


def result_columns(spec: TableSpec) -> list[str]:
    """The names of the columns of the results. Raises what `result_rows` does."""
    engine = connect(spec.url)
    try:
        return [column.name for column in _results(engine, spec).columns]
    finally:
        engine.dispose()


def failure_rows(spec: TableSpec, run_id: str | None = None) -> Iterator[Row]:
    """The failures as a stream, each as a file would hold it, in the order of their keys. Raises what `result_rows`
    does."""
    from sqlalchemy import select

    engine = connect(spec.url)
    table = define(spec, spec.failures, FAILURES, KEY)
    named = {column.name: column for column in table.columns if column.name != KEY}
    query = select(*(column.label(name) for name, column in named.items()))
    if run_id is not None:
        query = query.where(named["run_id"] == run_id)
    try:
        for row in stream(engine, spec.url, query.order_by(table.columns[0])):
            at: Any = row["failed_at"]
            yield {**row, "failed_at": utc(at.timestamp()) if isinstance(at, datetime) else at}
    finally:
        engine.dispose()


def _results(engine: Engine, spec: TableSpec) -> Table:
    from sqlalchemy import MetaData, Table
    from sqlalchemy.exc import NoSuchTableError

    namespace, _dot, name = spec.name.rpartition(".")
    with reporting(spec.url):
        try:
            return Table(name, MetaData(), autoload_with=engine, schema=namespace or None)
        except NoSuchTableError:
            raise DatabaseError(f"database {shown(spec.url)}: there is no table {spec.name!r}") from None
