"""Rows of a database as input: all that one query gives, streamed by a server-side cursor.

A source is `URL#QUERY` or `URL#TABLE`, and one span. The query runs several times in a run (to look at the columns,
to plan, for the records, and where ids repeat), each time in a transaction that cannot write: what it gives should
stay the same meanwhile. Which rows are done is known by their ids, never by their place; only where an id repeats
does the order say which row is the first, so such a query needs an ORDER BY.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Generator, Iterator
from contextlib import closing
from datetime import date, time
from typing import Any, NamedTuple

from transforms.database import DatabaseError, absolute, connect, reporting, shown
from transforms.formats.spans import Cut, InputFile, Located, Reading, Span, whole
from transforms.parse import parse_json_line
from transforms.records import Fields, compact_json

_ROWS = 1_000  # fetched at once: a row may hold a long text


class Source(NamedTuple):
    """A database's URL without a password, and what to read from it."""

    url: str
    query: str  # SQL, or the name of a table


def source(path: str, query: str | None = None) -> str:
    """The path of a source, as an input file's: a SQLite file in it is absolute."""
    url, sign, table = path.partition("#")
    return f"{absolute(url)}#{table if sign else query}"


def parse_source(path: str) -> Source:
    """The source that `source` made a path of."""
    url, _sign, query = path.partition("#")
    return Source(url, query)


def shown_source(path: str) -> str:
    """The database that a source's path names, for messages."""
    return shown(parse_source(path).url)


def read_rows(origin: Source) -> Generator[Fields, None, None]:
    """The rows of a source as JSON values. Raises DatabaseError, ValueError where `connect` does."""
    engine = connect(origin.url)
    try:
        with reporting(origin.url), engine.connect() as connection:
            options: dict[str, Any] = {"stream_results": True, "yield_per": _ROWS, "no_parameters": True}
            if engine.dialect.name == "postgresql":
                options["postgresql_readonly"] = True
            connection = connection.execution_options(**options)
            # Not by text(), which would take what follows a colon for a parameter.
            statement = _statement(origin.query, engine.dialect.identifier_preparer)
            with closing(connection.exec_driver_sql(statement)) as result:
                names = list(result.keys())
                repeated = {name for name in names if names.count(name) > 1}
                if repeated:
                    raise DatabaseError(
                        f"database {shown(origin.url)}: two columns of the query are named {min(repeated)!r}: use AS"
                    )
                for row in result:
                    yield {name: json_value(value) for name, value in zip(names, row, strict=True)}
    finally:
        engine.dispose()


def columns(item: InputFile, reading: Reading) -> list[str]:
    """The columns of a query's first row; none where it gives no row."""
    with closing(read_rows(parse_source(item.path))) as rows:
        return list(next(rows, {}))


def split(item: InputFile, _length: int, _reading: Reading) -> Iterator[Span]:
    """A query is one span."""
    yield whole(item)


def read(span: Span, reading: Reading) -> Iterator[Located | Cut]:
    """The rows of a query, whose positions count from 1: by way of JSON text, one reader for all that rows hold."""
    id_column = reading.id_in(span.format)
    for number, fields in enumerate(read_rows(parse_source(span.path)), 1):
        yield Located(number, parse_json_line(compact_json(fields).encode(errors="replace"), id_column))


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
