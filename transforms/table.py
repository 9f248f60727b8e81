"""A pair of tables in a database that take the place of results/ and failures/: their columns and their life.

| column of the results              | PostgreSQL               | SQLite                |
|------------------------------------|--------------------------|-----------------------|
| string                             | TEXT                     | TEXT                  |
| int64, float64, bool               | BIGINT, DOUBLE, BOOLEAN  | the same              |
| struct, list                       | JSONB                    | JSON text             |
| timestamp in UTC                   | TIMESTAMP WITH TIME ZONE | ISO 8601 text         |
| id                                 | TEXT COLLATE "C"         | TEXT, the primary key |

Failures have a key of their own, `row_key`, because some have no id and a repeated id has several: the digest of the
id for a failure of a call, else that of the run and the place in the input. Either makes writing a row twice writing
it once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from transforms import database
from transforms.database import NAME_BYTES, connect, missing_file, reporting, shown, transaction
from transforms.rows import SHARING_COLUMNS

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine, Table
    from sqlalchemy.types import TypeEngine

KEY = "row_key"
# Columns that a table gets when they are first needed, and that stay null where they no longer are.
_ADDED = frozenset(name for name, _type in SHARING_COLUMNS)
FAILURES = pa.schema(
    [
        (KEY, pa.string()),
        ("id", pa.string()),
        ("reason", pa.string()),
        ("message", pa.string()),
        ("retryable", pa.bool_()),
        ("http_status", pa.int64()),
        ("attempts", pa.int64()),
        ("prompt_tokens", pa.int64()),
        ("completion_tokens", pa.int64()),
        ("cost_usd", pa.float64()),
        ("output_text", pa.string()),
        ("input", pa.struct([])),
        ("source", pa.struct([])),
        ("run_id", pa.string()),
        ("task_hash", pa.string()),
        ("failed_at", pa.timestamp("ms", tz="UTC")),
    ]
)


@dataclass(frozen=True)
class TableSpec:
    """Where results go, as plain values: a database's URL without a password, and a table's name in it, which may
    have that of a PostgreSQL schema before it. `schema` are the results' columns; reading does not need it."""

    url: str
    name: str
    schema: pa.Schema | None = None

    @property
    def failures(self) -> str:
        """The name of the table of failures."""
        return f"{self.name}_failures"

    @property
    def place(self) -> str:
        """Database and table, for messages."""
        return f"{shown(self.url)}#{self.name}"

    @property
    def is_postgresql(self) -> bool:
        """Whether it is PostgreSQL, the other kind being SQLite."""
        return not self.url.startswith("sqlite:")


def table_spec(text: str, schema: pa.Schema | None = None) -> TableSpec:
    """The table that `output.table` names. Raises ValueError where it names none. Connects to nothing."""
    url, name = database.split_table(text)
    return TableSpec(database.absolute(url), name, schema)


def has_tables(spec: TableSpec) -> bool:
    """Whether both tables are there. Raises DatabaseError, ValueError where `connect` does."""
    from sqlalchemy import inspect

    if missing_file(spec.url):
        return False
    engine = connect(spec.url)
    try:
        with reporting(spec.url), engine.connect() as connection:
            found = inspect(connection)
            places = [_split(name) for name in (spec.name, spec.failures)]
            return all(found.has_table(table, namespace) for namespace, table in places)
    finally:
        engine.dispose()


class Tables:
    """The two tables, open. Close it after use."""

    def __init__(self, spec: TableSpec, *, write: bool = False) -> None:
        """Raises ValueError where `connect` does."""
        self.spec = spec
        self.engine: Engine = connect(spec.url, write=write)
        self.failures = define(spec, spec.failures, FAILURES, KEY)
        self.results = define(spec, spec.name, spec.schema, "id") if spec.schema is not None else None

    def close(self) -> None:
        """Closes the connections."""
        self.engine.dispose()

    def check(self, *, columns: bool = True) -> None:
        """Whether the database answers and, with `columns`, tables that exist have the columns that ours would.

        Raises DatabaseError for the first, ValueError, naming the columns, for the second."""
        from sqlalchemy import inspect

        assert self.results is not None
        if missing_file(self.spec.url):
            return
        with reporting(self.spec.url), self.engine.connect() as connection:
            found = inspect(connection)
            for table in (self.results, self.failures):
                if not columns or not found.has_table(table.name, table.schema):
                    continue
                there = {column["name"]: column["type"] for column in found.get_columns(table.name, table.schema)}
                keys = found.get_pk_constraint(table.name, table.schema)["constrained_columns"]
                problem = _difference(table, there) or _wrong_key(table, keys)
                if problem:
                    raise ValueError(
                        f"{shown(self.spec.url)} has a table {table.fullname!r} with other columns: {problem}; "
                        "choose another name, or --on-change=redo where the task has changed"
                    )

    def create(self) -> None:
        """Makes the tables that are not there. Raises DatabaseError."""
        assert self.results is not None
        tables = [self.results, self.failures]
        metadata = self.results.metadata, self.failures.metadata

        def make(connection: Connection) -> None:
            for each, table in zip(metadata, tables, strict=True):
                each.create_all(connection, [table])

        transaction(self.engine, self.spec.url, make)

    def add_columns(self) -> None:
        """Gives a table that is there those of SHARING_COLUMNS that ours would have. Raises DatabaseError."""
        from sqlalchemy import inspect
        from sqlalchemy.schema import CreateColumn

        assert self.results is not None
        results = self.results

        def add(connection: Connection) -> None:
            found = inspect(connection)
            if not found.has_table(results.name, results.schema):
                return
            there = {column["name"] for column in found.get_columns(results.name, results.schema)}
            for column in results.columns:
                if column.name in _ADDED and column.name not in there:
                    quoted = connection.dialect.identifier_preparer.format_table(results)
                    added = str(CreateColumn(column).compile(dialect=connection.dialect))
                    connection.exec_driver_sql(f"ALTER TABLE {quoted} ADD COLUMN {added}")

        transaction(self.engine, self.spec.url, add)

    def set_aside(self, run_id: str) -> None:
        """Renames both tables, where they are, to `<table>_replaced_<run_id>`, both or none. Raises DatabaseError."""
        from sqlalchemy import inspect

        def rename(connection: Connection) -> None:
            found = inspect(connection)
            for name, suffix in ((self.spec.name, f"_replaced_{run_id}"), (self.spec.failures, f"_{run_id}")):
                namespace, table = _split(name)
                if found.has_table(table, namespace):
                    quote = connection.dialect.identifier_preparer
                    before = f"{quote.quote(namespace)}." if namespace else ""
                    kept = table.encode()[: NAME_BYTES - len(suffix)].decode(errors="ignore")
                    # No text() here: it would take what follows a colon in a name for a parameter.
                    connection.exec_driver_sql(
                        f"ALTER TABLE {before}{quote.quote(table)} RENAME TO {quote.quote(kept + suffix)}".replace(
                            "%", "%%" if self.spec.is_postgresql else "%"
                        )
                    )

        transaction(self.engine, self.spec.url, rename)


def define(spec: TableSpec, name: str, schema: pa.Schema, key: str) -> Table:
    """A table as SQLAlchemy knows it. Its columns go by `c0`, `c1`, ... in code, so that any name works in SQL."""
    from sqlalchemy import Column, MetaData, Table, Text

    namespace, table = _split(name)
    _check_names(spec, schema)
    kind: Any = Text(collation="C") if spec.is_postgresql else Text()
    columns = [
        Column(field.name, kind, key=f"c{number}", primary_key=True)
        if field.name == key
        else Column(field.name, column_type(field.type, spec), key=f"c{number}", nullable=True)
        for number, field in enumerate(schema)
    ]
    return Table(table, MetaData(), *columns, schema=namespace)


def column_type(kind: pa.DataType, spec: TableSpec) -> TypeEngine[Any]:
    """The SQL type of a column of the results."""
    from sqlalchemy import JSON, BigInteger, Boolean, DateTime, Double, Text
    from sqlalchemy.dialects.postgresql import JSONB

    if pa.types.is_nested(kind):
        return JSONB(none_as_null=True) if spec.is_postgresql else JSON(none_as_null=True)
    if pa.types.is_timestamp(kind):
        return DateTime(timezone=True) if spec.is_postgresql else Text()
    if pa.types.is_integer(kind):
        return BigInteger()
    if pa.types.is_floating(kind):
        return Double()
    return Boolean() if pa.types.is_boolean(kind) else Text()


def _check_names(spec: TableSpec, schema: pa.Schema) -> None:
    seen: dict[str, str] = {}
    for name in schema.names:
        if not name or "\0" in name or (spec.is_postgresql and len(name.encode()) > NAME_BYTES):
            raise ValueError(f"no table can have a column named {name[:80]!r}: rename it in task.schema or input.carry")
        same = seen.setdefault(name if spec.is_postgresql else name.lower(), name)
        if same != name:
            raise ValueError(f"SQLite takes the columns {same!r} and {name!r} for one: rename one of them")


def _difference(table: Table, there: dict[str, TypeEngine[Any]]) -> str:
    ours = {column.name: column.type for column in table.columns}
    parts = []
    if missing := [name for name in ours if name not in there and name not in _ADDED]:
        parts.append(f"without {', '.join(map(repr, missing))}")
    if further := [name for name in there if name not in ours and name not in _ADDED]:
        parts.append(f"with {', '.join(map(repr, further))}")
    parts += [
        f"{name!r} is {there[name]} and not {kind}"
        for name, kind in ours.items()
        if name in there and _family(there[name]) != _family(kind)
    ]
    return ", ".join(parts)


def _wrong_key(table: Table, keys: list[str]) -> str:
    ours = [column.name for column in table.primary_key]
    return "" if keys == ours else f"its primary key is not {ours[0]!r}"


def _family(kind: TypeEngine[Any]) -> str:
    from sqlalchemy import types

    if isinstance(kind, (types.Float, types.Numeric)):
        return "number"
    families = (types.Boolean, types.JSON, types.DateTime, types.Integer, types.String)
    return next((family.__name__ for family in families if isinstance(kind, family)), type(kind).__name__)


def _split(name: str) -> tuple[str | None, str]:
    namespace, dot, table = name.rpartition(".")
    return (namespace if dot else None), table
