"""What an interrupted run left behind is published before the next one begins.

Journals are streamed twice, first for their digests, then for their rows: memory is 16 bytes a row, whatever the
rows hold. An id that stands in a journal more than once is published once; an answer goes before a failure.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from transforms import commit, digests, files, journal, reserve, stop
from transforms.account import AS_ASKED, FAILED, make_account
from transforms.digests import DigestSet
from transforms.journal import OK, Entry
from transforms.layout import Layout
from transforms.plan import PLAN_FILE
from transforms.publish_table import publish_table
from transforms.records import Row
from transforms.table import Tables, TableSpec
from transforms.tally import Tally, add
from transforms.write import Roll, ShardFormat, outcome_tally
from transforms.write_table import TableWriter


class RowWriter(Protocol):
    """Takes rows of one kind, to files or to a table."""

    def write(self, row: Row) -> None:
        """Adds a row."""

    def close(self) -> None:
        """Finishes what was added."""


class Recovered(NamedTuple):
    """What was published of one interrupted run. `damaged` counts journal lines that could not be read; `account`
    is None where the journal held no rows."""

    run_id: str
    ok: int
    failed: int
    damaged: int
    account: dict[str, Any] | None


def write_header(layout: Layout, header: dict[str, Any], shards: ShardFormat) -> None:
    """Opens a run's journal folder with all that its recovery would need to know."""
    schema = None if shards.schema is None else base64.b64encode(shards.schema.serialize().to_pybytes()).decode()
    described = {"format": shards.name, "rows_per_shard": shards.rows_per_shard, "schema": schema}
    if shards.name == "csv":
        described["escape_formulas"] = shards.escape_formulas
    files.write_json(layout.header(header["run_id"]), {**header, "shards": described})


def read_header(layout: Layout, run_id: str) -> dict[str, Any]:
    """What `write_header` wrote. Raises OSError or ValueError where it is not there or not whole."""
    value = files.read_json(layout.header(run_id))
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def interrupted_runs(layout: Layout) -> list[str]:
    """The run ids of the journals that are there, oldest first."""
    return files.subfolders(layout.journals)


def finish_commits(layout: Layout) -> list[str]:
    """Carries out the commits that were written down and not finished, and clears what was staged without one.
    Returns the runs whose commits were finished."""
    finished = [run_id for run_id in files.subfolders(layout.stages) if commit.is_planned(layout, run_id)]
    for run_id in finished:
        commit.carry_out(layout, run_id)
    files.remove_folder(layout.stages)
    return finished


def recover(layout: Layout, run_id: str, table: TableSpec | None = None) -> Recovered:
    """Publishes the journal of a run that was cut short, then removes it: as files, or into `table`, with the
    columns that the run had. Raises ValueError where the journal has rows but nothing that says what they are."""
    reserve.remove_left(layout.journal(run_id))  # what is to be published needs room
    paths = [info.path for info in journal.journal_files(layout.journal(run_id))]
    if not paths or files.exists(layout.account(run_id)):  # with an account, its rows are published
        files.remove_folder(layout.journal(run_id))
        return Recovered(run_id, 0, 0, 0, None)
    try:
        header = read_header(layout, run_id)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{layout.header(run_id)}: cannot be read, so its journal cannot be published: {error}"
        ) from None
    shards = shard_format(header["shards"])
    tally: Tally = {}
    entries = _settle(paths, tally)
    if table is None:
        results, failures = Roll(shards, layout.staging(run_id)), Roll(commit.FAILURES, layout.staging(run_id))
        _write(entries, tally, results, failures)
    else:
        table = replace(table, schema=shards.schema)
        _deliver(entries, tally, table)
    account = make_account(header, _with_plan(layout, run_id, tally), stop.reason(layout.journal(run_id)))
    if account["stop_reason"] is None or account["stop_reason"] in AS_ASKED:
        account.update(status=FAILED, stop_reason="cut short; what it had was published afterwards")
    if table is None:
        commit.publish(layout, run_id, results.finished, failures.finished, layout.shards(layout.failures), account)
    else:
        publish_table(layout, run_id, table, account)
    return Recovered(run_id, account["ok"], account["failed"], tally.get("damaged", 0), account)


def _write(entries: Iterable[Entry], tally: Tally, results: RowWriter, failures: RowWriter) -> None:
    for entry in entries:
        (results if entry.outcome == OK else failures).write(entry.row)
        add(tally, outcome_tally(entry.row, "ok" if entry.outcome == OK else "failed"))
        add(tally, {"notes": entry.notes})
    results.close()
    failures.close()


def _deliver(entries: Iterable[Entry], tally: Tally, table: TableSpec) -> None:
    tables = Tables(table, write=True)
    tables.create()
    tables.close()
    results, failures = TableWriter(table, "ok"), TableWriter(table, "failed")
    try:
        _write(entries, tally, results, failures)
    finally:
        results.disconnect()
        failures.disconnect()


def _with_plan(layout: Layout, run_id: str, tally: Tally) -> Tally:
    """The counts of a journal with those of the run's plan, so that the account adds up. Rows that were set aside
    before a call are in no journal: they count as unprocessed here."""
    path = files.join(layout.journal(run_id), PLAN_FILE)
    outcomes = tally.get("ok", 0) + tally.get("failed", 0)
    rows = todo = outcomes
    if files.exists(path):
        plan = files.read_json(path)
        rows, todo = plan["rows"], max(plan["todo"], outcomes)
    return {**tally, "total": rows, "skipped": rows - todo, "unprocessed": todo - outcomes}


def shard_format(described: dict[str, Any]) -> ShardFormat:
    """The format of results as a header describes it."""
    schema = described["schema"]
    return ShardFormat(
        described["format"],
        described["rows_per_shard"],
        None if schema is None else pa.ipc.read_schema(pa.BufferReader(base64.b64decode(schema))),
        described.get("escape_formulas", True),
    )


def _settle(paths: list[str], tally: Tally) -> Iterator[Entry]:
    """Each id's outcome, once. Lines that cannot be read are counted under `damaged`."""
    answered = DigestSet(digests.merge(digests.pack(_digests(paths, OK))))
    failed = DigestSet(digests.merge(digests.pack(_digests(paths, journal.DEAD_LETTER))))
    taken = {OK: np.zeros(len(answered), dtype=bool), journal.DEAD_LETTER: np.zeros(len(failed), dtype=bool)}
    for path in paths:
        for entry in journal.read(path):
            if entry is None:
                add(tally, {"damaged": 1})
                continue
            ids = answered if entry.outcome == OK else failed
            at = ids.find(entry.digest)
            if at is None or taken[entry.outcome][at]:
                continue
            if entry.outcome != OK and entry.digest in answered:
                continue
            taken[entry.outcome][at] = True
            yield entry


def _digests(paths: list[str], outcome: str) -> Iterator[bytes]:
    for path in paths:
        for found, value in journal.heads(path):
            if found == outcome:
                yield value
