"""One run, from the lock on its output to the account."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from functools import partial
from typing import Any

from pipelines import children, lost_workers, pilot, summary
from pipelines.broken import print_broken
from pipelines.check import Checked, check
from pipelines.config import UsageError
from pipelines.earlier_runs import new_run_id
from pipelines.engine import execute
from pipelines.engine_metrics import EngineMetrics
from pipelines.graph import build
from pipelines.interrupts import Interrupts
from pipelines.options import Options
from pipelines.prepare import check_model, check_shared, check_writable
from pipelines.progress import showing_progress
from pipelines.report.after import write_report_if_possible
from pipelines.right import print_right
from pipelines.run_spec import make_spec
from pipelines.takeover import let_workers_end
from pipelines.terminal import say
from pipelines.worker_places import note, with_workers
from transforms import files, rolled_journal, stop, workers
from transforms.commit import carry_out, plan_commit
from transforms.database import DatabaseError
from transforms.held import Held, Locked, LockLost
from transforms.layout import Layout
from transforms.lock import lock
from transforms.recover import finish_commits, interrupted_runs, recover, write_header
from transforms.same_columns import same_columns
from transforms.settings import Settings
from transforms.stop import INTERRUPTED, LOCK_LOST, WORKER_LOST, StopSign, WorkerLost
from transforms.table import Tables, TableSpec, table_spec

BROKEN_CODE = 1


def launch(settings: Settings, options: Options) -> int:
    """Runs the pipeline and prints its summary. Returns the exit code; raises UsageError before anything is written
    or paid where that cannot work."""
    check_model(settings)
    check_shared(settings)
    checked = check(settings, options)
    settings = with_workers(settings, checked.workers)
    layout = checked.layout
    check_writable(settings, layout)
    with ExitStack() as held:
        try:
            output = held.enter_context(lock(layout.root, lambda line: say(line, error=True)))
        except Locked as error:
            raise UsageError(str(error)) from None
        except OSError as error:
            raise UsageError(
                f"output.path: {settings.output.path} cannot be written: {error.strerror or error}"
            ) from None
        if settings.model.provider != "embedded":
            summary.print_price(checked.price, settings.model)
        for line in [*checked.prepared.notes, note(settings, checked.workers)]:
            if line is not None:
                say(line, error=True)
        return _run(settings, options, checked, output)


def _run(settings: Settings, options: Options, checked: Checked, output: Held) -> int:
    layout, prepared, price, redo, _workers = checked
    run_id = new_run_id(layout)
    sign = StopSign(layout.journal(run_id))
    interrupts = Interrupts(partial(sign.set, INTERRUPTED), rolled_journal.save_all)
    table = None if settings.output.table is None else table_spec(settings.output.table, prepared.schema)
    drawn = None
    measured = EngineMetrics()
    with ExitStack() as held:
        try:
            if table is not None:
                _add_columns(table)
            finish_commits(layout)
            recovered = []
            for earlier in interrupted_runs(layout):
                let_workers_end(layout, earlier)
                output.check()
                recovered.append(recover(layout, earlier, table))
            output.check()
            summary.print_recovered(recovered)
            if redo:
                _set_aside(layout, run_id)
            if table is not None:
                _open_tables(table, run_id, redo=redo)
            prepared = prepared._replace(schema=same_columns(layout, run_id, prepared.schema))
            spec = make_spec(settings, options, layout, prepared, [] if redo else recovered, run_id, price)
            if options.pilot is not None:
                drawn = pilot.draw(spec, options.pilot, options.beam_args)
                spec = drawn.spec
            output.check()
            write_header(layout, spec.header, spec.shards)
            output.on_lost(partial(sign.set, LOCK_LOST))
            held.enter_context(interrupts.handled())
            held.enter_context(lost_workers.watched(partial(sign.set, WORKER_LOST), partial(_give_up, layout, run_id)))
            with showing_progress(layout.root, run_id):
                measured = execute(options.beam_args, lambda pipeline: build(pipeline, spec), verbose=options.verbose)
            account = files.read_json(layout.account(run_id))
        except Exception as error:
            logging.getLogger(__name__).info("the run broke", exc_info=True)
            workers.close_all()
            found = _after_break(layout, run_id, table, output) if interrupts.came() else None
            if found is None:
                print_broken(_cause(error, layout, run_id), layout)
                return BROKEN_CODE
            account = found
        summary.print_account(account, layout, measured.describe())
        if settings.task.expected is not None:
            print_right(account, layout)
        if drawn is not None:
            pilot.print_projection(settings, options, drawn, account, price)
        if settings.output.report:
            write_report_if_possible(layout)
        return summary.exit_code(account)


def _after_break(layout: Layout, run_id: str, table: TableSpec | None, output: Held) -> dict[str, Any] | None:
    """The account of a run whose engine ended before its graph did, as it does when a terminal interrupts both: what
    was answered is published all the same. None where it cannot be."""
    try:
        if files.exists(layout.account(run_id)):
            account: dict[str, Any] = files.read_json(layout.account(run_id))
            return account
        output.check()
        stop.check(layout.journal(run_id))
        return recover(layout, run_id, table).account
    except (OSError, ValueError, DatabaseError, LockLost):
        return None


def _cause(error: Exception, layout: Layout, run_id: str) -> Exception:
    """Why a run broke: the loss of a worker goes before what an engine makes of it."""
    given = stop.reason(layout.journal(run_id))
    lost = given is not None and given["kind"] == WORKER_LOST
    return WorkerLost(given["message"]) if given is not None and lost else error


def _give_up(layout: Layout, run_id: str) -> None:
    """Ends a process whose run has lost a worker and waits for others in vain."""
    print_broken(_cause(WorkerLost("a worker process ended"), layout, run_id), layout)
    children.end_all()
    os._exit(BROKEN_CODE)


def _set_aside(layout: Layout, run_id: str) -> None:
    """Moves all results and failures to where the run that does them again keeps the old ones."""
    target = layout.replaced(run_id)
    moves = [
        (path, files.join(target, files.name(folder), files.name(path)))
        for folder in (layout.results, layout.failures)
        for path in layout.shards(folder)
    ]
    plan_commit(layout, run_id, moves, [], None)
    carry_out(layout, run_id)


def _open_tables(table: TableSpec, run_id: str, *, redo: bool) -> None:
    """Makes the tables that are not there; those of another task are renamed first where it is to be done again."""
    tables = Tables(table, write=True)
    try:
        if redo:
            tables.set_aside(run_id)
        tables.create()
    finally:
        tables.close()


def _add_columns(table: TableSpec) -> None:
    tables = Tables(table, write=True)
    try:
        tables.add_columns()
    finally:
        tables.close()
