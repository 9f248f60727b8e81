"""The commit of a run whose rows go into tables.

When it begins, the table has every row of the run: each batch was committed before its bundle ended. What is left:

1. One transaction removes the failures that earlier runs found before a call; this run has found its own.
2. The account is written, whole or not at all: from here on the run is published.
3. Its journal is removed.

kill -9 before 2 leaves a journal without an account: the next launch upserts its rows again, which changes none
that are there already, and writes an account. kill -9 before 3 leaves a journal beside an account: the next launch
removes it. So a row is in the journal until it is in the table for good, and never in the table twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from transforms import files
from transforms.database import transaction
from transforms.layout import Layout
from transforms.rows import UNCALLED
from transforms.table import Tables, TableSpec

if TYPE_CHECKING:
    from sqlalchemy import Connection


def publish_table(layout: Layout, run_id: str, spec: TableSpec, account: dict[str, Any]) -> None:
    """Publishes a run whose rows are in the tables. Doing it twice is doing it once. Raises DatabaseError."""
    if not files.exists(layout.account(run_id)):
        account["carried_failures"] = _settle(spec, run_id)
        files.write_json(layout.account(run_id), account)
    files.remove_folder(layout.journal(run_id))


def _settle(spec: TableSpec, run_id: str) -> int:
    """Removes failures that are found anew by each run. Returns how many of earlier runs are left."""
    from sqlalchemy import delete, func, select

    tables = Tables(spec, write=True)
    by_name = {column.name: column for column in tables.failures.columns}
    others = by_name["run_id"].is_distinct_from(run_id)

    def settle(connection: Connection) -> int:
        connection.execute(delete(tables.failures).where(others, by_name["reason"].in_(sorted(UNCALLED))))
        return int(connection.scalar(select(func.count()).select_from(tables.failures).where(others)) or 0)

    try:
        return transaction(tables.engine, spec.url, settle)
    finally:
        tables.close()
