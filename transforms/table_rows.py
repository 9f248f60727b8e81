"""The results in a table, read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from transforms.database import connect, reporting, stream
from transforms.table import TableSpec


def result_rows(spec: TableSpec, columns: Sequence[str], most: int) -> Iterator[list[dict[str, Any]]]:
    """The results in lists of up to `most` rows, which have those of `columns` that the table has. Numbers, lists and
    objects are what they were; times are datetimes from PostgreSQL, text from SQLite. Raises DatabaseError, ValueError
    where `connect` does."""
    from sqlalchemy import MetaData, Table, select

    engine = connect(spec.url)
    namespace, _dot, name = spec.name.rpartition(".")
    try:
        with reporting(spec.url):
            table = Table(name, MetaData(), autoload_with=engine, schema=namespace or None)
        rows = stream(
            engine, spec.url, select(*(column for column in table.columns if column.name in (*columns, "id")))
        )
        while chunk := list(islice(rows, most)):
            yield chunk
    finally:
        engine.dispose()
