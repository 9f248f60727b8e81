"""Rows -> tables: results and failures upserted in batches, each batch in one transaction.

Writing a row twice is writing it once, so an engine may repeat a bundle, or run it in two places. The journal has
each row before it comes here; what a database that went away did not take is delivered from there by the next run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from transforms.database import transaction
from transforms.digests import digest
from transforms.records import Row, canonical_json
from transforms.rows import UNCALLED
from transforms.table import FAILURES, KEY, Tables, TableSpec
from transforms.table_cells import converters
from transforms.tally import TALLY, Tally, add, bundle_tally
from transforms.write import outcome_tally

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table
    from sqlalchemy.sql import Executable

BATCH = 1_000  # rows of one transaction


class TableWriter:
    """Writes rows of one kind, "ok" or "failed", into its table. Raises DatabaseError where that cannot be done.

    A result takes its id out of the failures. A failure of a row that has a result is not written; one that says a
    row was set aside takes the place of what a call of it came to before."""

    def __init__(self, spec: TableSpec, kind: str) -> None:
        self._tables = Tables(spec, write=True)
        self._spec = spec
        self._kind = kind
        self._held: dict[str, Row] = {}  # by key: the last of a batch stands
        assert self._tables.results is not None
        self._results, self._failures = self._tables.results, self._tables.failures
        schema = spec.schema if kind == "ok" else FAILURES
        self._converters = converters(spec, schema)
        self._upsert = upsert(self._results if kind == "ok" else self._failures, spec)
        self._lock = int.from_bytes(digest(spec.name)[:8], "big", signed=True)

    def write(self, row: Row) -> None:
        """Adds a row; it is in the table after the batch is full, or `close`."""
        self._held[row["id"] if self._kind == "ok" else failure_key(row)] = row
        if len(self._held) >= BATCH:
            self.close()

    def close(self) -> None:
        """Writes the rows that are held. More may follow."""
        if self._held:
            transaction(
                self._tables.engine, self._spec.url, self._results_in if self._kind == "ok" else self._failures_in
            )
            self._held.clear()

    def discard(self) -> None:
        """Lets go of the rows that are held."""
        self._held.clear()

    def disconnect(self) -> None:
        """Closes the connections."""
        self._tables.close()

    def _results_in(self, connection: Connection) -> None:
        self._exclusive(connection)
        connection.execute(self._upsert, self._values(self._held))
        self._remove_failures(connection, [call_key(identifier) for identifier in self._held])

    def _failures_in(self, connection: Connection) -> None:
        self._exclusive(connection)
        answered = self._answered(connection, [row["id"] for row in self._held.values() if _is_of_first(row)])
        rows = {key: row for key, row in self._held.items() if not (_is_of_first(row) and row["id"] in answered)}
        if not rows:
            return
        self._remove_failures(
            connection,
            [call_key(row["id"]) for row in rows.values() if _is_of_first(row) and row["reason"] in UNCALLED],
        )
        connection.execute(self._upsert, self._values({key: {**row, KEY: key} for key, row in rows.items()}))

    def _values(self, rows: dict[str, Row]) -> list[Row]:
        return [
            {
                column: None if (value := row.get(name)) is None else convert(value)
                for name, column, convert in self._converters
            }
            for row in rows.values()
        ]

    def _exclusive(self, connection: Connection) -> None:
        """One batch at a time, or a failure and the result of one row, from two bundles, would not see each other.
        SQLite has one writer anyway."""
        if self._spec.is_postgresql:
            from sqlalchemy import func, select

            connection.execute(select(func.pg_advisory_xact_lock(self._lock)))

    def _answered(self, connection: Connection, ids: list[str]) -> set[str]:
        from sqlalchemy import select

        if not ids:
            return set()
        column = self._results.columns[0]
        wanted = [identifier for identifier in ids if "\0" not in identifier or not self._spec.is_postgresql]
        return set(connection.execute(select(column).where(column.in_(wanted))).scalars())

    def _remove_failures(self, connection: Connection, keys: list[str]) -> None:
        from sqlalchemy import delete

        if keys:
            connection.execute(delete(self._failures).where(self._failures.columns[0].in_(keys)))


def call_key(identifier: str) -> str:
    """The key of the failure of a call."""
    return digest(identifier).hex()


def failure_key(row: Row) -> str:
    """The key of a failure. One found before a call is told apart by its run and its place in the input, because it
    may have no id, or one that it shares."""
    if row["reason"] not in UNCALLED:
        return call_key(row["id"])
    return "u" + digest(canonical_json([row[name] for name in ("run_id", "reason", "id", "source")])).hex()


def upsert(table: Table, spec: TableSpec) -> Executable:
    """Inserts a row, or replaces all of the one that has its key."""
    if spec.is_postgresql:
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
    statement = insert(table)
    [key] = table.primary_key
    changed = {column.key: statement.excluded[column.key] for column in table.columns if column is not key}
    return statement.on_conflict_do_update(index_elements=[key], set_=changed)


@dataclass
class WriteTable(beam.PTransform):
    """Row -> how many rows of a bundle are in the table (main output), and their tallies under TALLY. `kind` is "ok"
    or "failed".

    Raises DatabaseError where the database does not take the rows, after a few attempts."""

    table: TableSpec
    kind: str

    def expand(self, pcoll: Any) -> Any:
        outputs = pcoll | "Upsert" >> beam.ParDo(_WriteBundle(self.table, self.kind)).with_outputs(
            TALLY, main="written"
        )
        return {"staged": outputs.written, "tally": outputs[TALLY]}


class _WriteBundle(beam.DoFn):
    def __init__(self, table: TableSpec, kind: str) -> None:
        self._table = table
        self._kind = kind

    def setup(self) -> None:
        self._writer = TableWriter(self._table, self._kind)

    def teardown(self) -> None:
        self._writer.disconnect()

    def start_bundle(self) -> None:
        self._writer.discard()  # of a bundle that broke
        self._rows = 0
        self._tally: Tally = {}

    def process(self, row: Row) -> None:
        self._writer.write(row)
        self._rows += 1
        add(self._tally, outcome_tally(row, self._kind))

    def finish_bundle(self) -> Iterator[Any]:
        self._writer.close()
        yield GlobalWindows.windowed_value(self._rows)
        yield bundle_tally(self._tally)


def _is_of_first(row: Row) -> bool:
    """Whether a failure is that of the record which its id stands for: a later one says nothing about the first."""
    return row["id"] is not None and row["reason"] != "duplicate_id"
