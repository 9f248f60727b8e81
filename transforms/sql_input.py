"""Rows of a database as input: all that one query gives, streamed by a server-side cursor.

A source is `URL#QUERY` or `URL#TABLE`, and one span. The query runs several times in a run (to look at the columns,
to plan, for the records, and where ids repeat), each time in a transaction that cannot write: what it gives should
stay the same meanwhile. Which rows are done is known by their ids, never by their place; only where an id repeats
does the order say which row is the first, so such a query needs an ORDER BY.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator
from contextlib import closing
from datetime import date, time
from typing import Any, NamedTuple

from transforms.database import DatabaseError, absolute, connect, reporting, shown
from transforms.records import Fields, compact_json

_ROWS = 1_000  # fetched at once: a row may hold a long text


class SqlSource(NamedTuple):
    """A database's URL without a password, and what to read from it."""

    url: str
    query: str  # SQL, or the name of a table


def sql_source(path: str, query: str | None = None) -> str:
    """The path of a source, as an input file's: a SQLite file in it is absolute."""
    url, sign, table = path.partition("#")
    return f"{absolute(url)}#{table if sign else query}"


def parse_source(path: str) -> SqlSource:
    """The source that `sql_source` made a path of."""
    url, _sign, query = path.partition("#")
    return SqlSource(url, query)


def read_rows(source: SqlSource) -> Iterator[Fields]:
    """The rows of a source as JSON values. Raises DatabaseError, ValueError where `connect` does."""
    engine = connect(source.url)
    try:
        with reporting(source.url), engine.connect() as connection:
            options: dict[str, Any] = {"stream_results": True, "yield_per": _ROWS, "no_parameters": True}
            if engine.dialect.name == "postgresql":
                options["postgresql_readonly"] = True
            connection = connection.execution_options(**options)
            # Not by text(), which would take what follows a colon for a parameter.
            statement = _statement(source.query, engine.dialect.identifier_preparer)
            with closing(connection.exec_driver_sql(statement)) as result:
                names = list(result.keys())
                repeated = {name for name in names if names.count(name) > 1}
                if repeated:
                    raise DatabaseError(
                        f"database {shown(source.url)}: two columns of the query are named {min(repeated)!r}: use AS"
                    )
                for row in result:
                    yield {name: json_value(value) for name, value in zip(names, row, strict=True)}
    finally:
        engine.dispose()


def read_lines(source: SqlSource) -> Iterator[bytes]:
    """The rows of a source as JSON lines without their ends: one reader for all that a record may be."""
    for fields in read_rows(source):
        yield compact_json(fields).encode(errors="replace")


def json_value(value: Any) -> Any:
    """A value of a driver as JSON: times in ISO 8601, decimals as text, bytes in Base64, NaN and infinities null."""
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, (date, time)):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, dict):
        return {str(key): json_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(item) for item in value]
    return str(value)  # Decimal, UUID, an interval, an address


def _statement(query: str, preparer: Any) -> str:
    if any(character.isspace() for character in query):
        return query.strip().removesuffix(";")
    return f"SELECT * FROM {'.'.join(preparer.quote(part) for part in query.split('.'))}"
