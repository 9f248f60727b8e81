"""The ids in the tables of earlier runs, in ranges that are read one by one, wherever there is room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.database import stream, transaction
from transforms.table import FAILURES, Tables, TableSpec, define, has_tables

RANGE_ROWS = 250_000
_RESULTS = pa.schema([("id", pa.string()), ("run_id", pa.string())])
_FAILURES = ("id", "reason", "retryable", "http_status", "run_id")  # what says whether a failure is done


class PriorRows(NamedTuple):
    """A range of a table of earlier output, by its key: after `after`, up to `until`; None: from the first, to the
    last. Rows of the run `not_run` do not count: they are what it is writing. `runs` names those that do; None: all
    others."""

    table: TableSpec
    is_failures: bool
    not_run: str
    after: str | None = None
    until: str | None = None
    runs: frozenset[str] | None = None


def prior_ranges(spec: TableSpec, run_id: str, runs: frozenset[str] | None = None) -> list[PriorRows]:
    """Both tables in ranges of RANGE_ROWS rows; none where they are not there yet. Raises DatabaseError."""
    spec = replace(spec, schema=None)
    return [
        PriorRows(spec, is_failures, run_id, after, until, runs)
        for is_failures in ((False, True) if has_tables(spec) else ())
        for after, until in _ranges(spec, is_failures)
    ]


def _ranges(spec: TableSpec, is_failures: bool) -> list[tuple[str | None, str | None]]:
    from sqlalchemy import select

    tables = Tables(spec)
    key = _table(spec, is_failures).columns[0]
    bounds: list[str] = []

    def bound(connection: Any) -> str | None:
        after = key > bounds[-1] if bounds else key.is_not(None)
        found: str | None = connection.scalar(select(key).where(after).order_by(key).offset(RANGE_ROWS - 1).limit(1))
        return found

    try:
        while (found := transaction(tables.engine, spec.url, bound)) is not None:
            bounds.append(found)
    finally:
        tables.close()
    return list(zip([None, *bounds], [*bounds, None], strict=True))


def prior_rows(prior: PriorRows) -> Iterator[dict[str, Any]]:
    """The rows of a range, as a stream: of results only the id, of failures what says whether they are done.

    Raises DatabaseError."""
    from sqlalchemy import select

    tables = Tables(prior.table)
    table = _table(prior.table, prior.is_failures)
    by_name = {column.name: column for column in table.columns}
    key, run_id = table.columns[0], by_name["run_id"]
    names = _FAILURES if prior.is_failures else ("id",)
    query = select(*(by_name[name].label(name) for name in names)).where(run_id.is_distinct_from(prior.not_run))
    if prior.after is not None:
        query = query.where(key > prior.after)
    if prior.until is not None:
        query = query.where(key <= prior.until)
    if prior.runs is not None:
        query = query.where(run_id.in_(prior.runs))
    try:
        yield from stream(tables.engine, prior.table.url, query)
    finally:
        tables.close()


def _table(spec: TableSpec, is_failures: bool) -> Any:
    return define(spec, spec.failures, FAILURES, "row_key") if is_failures else define(spec, spec.name, _RESULTS, "id")
