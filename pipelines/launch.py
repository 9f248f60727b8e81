"""One run, from the lock on its output to the account."""

from __future__ import annotations

import logging
import secrets
import time
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from functools import partial
from typing import Any, NamedTuple

from pipelines import file_systems, pilot, summary
from pipelines.broken import print_broken
from pipelines.config import UsageError, changes, public, task_fingerprint, task_hash
from pipelines.engine import execute
from pipelines.graph import RunSpec, build
from pipelines.interrupts import Interrupts
from pipelines.options import Options
from pipelines.prepare import (
    Prepared,
    check_model,
    check_output,
    check_price,
    check_shared,
    check_table,
    check_writable,
    prepare,
)
from pipelines.progress import showing_progress
from pipelines.report.after import write_report_if_possible
from pipelines.right import print_right
from pipelines.terminal import say
from transforms import files, rolled_journal, stop, workers
from transforms.account import spent_usd
from transforms.budget import BudgetSpec
from transforms.call_spec import CallSpec
from transforms.commit import carry_out, plan_commit
from transforms.database import DatabaseError
from transforms.held import Held, Locked, LockLost
from transforms.layout import Layout
from transforms.llm.price_table import Found
from transforms.lock import lock
from transforms.read import span_bytes
from transforms.records import utc
from transforms.recover import Recovered, finish_commits, interrupted_runs, read_header, recover, write_header
from transforms.resume import Prior
from transforms.rolled_journal import RollRule
from transforms.rows import RunStamp, type_of
from transforms.same_columns import same_columns
from transforms.screen import Rules
from transforms.settings import Settings
from transforms.shards import ShardFormat
from transforms.stop import INTERRUPTED, LOCK_LOST, StopSign
from transforms.table import Tables, TableSpec, table_spec
from transforms.table_ids import PriorRows, prior_ranges

BROKEN_CODE = 1
ON_CHANGE = (
    "choose --on-change=keep to keep them and do the rest, --on-change=redo to do all again, or another --output"
)
_RUN_ID_TIME = "%Y%m%dT%H%M%S"


class Checked(NamedTuple):
    """What is known of a run before it begins. `redo`: what the output holds is to be done again."""

    layout: Layout
    prepared: Prepared
    price: Found | None
    redo: bool


def check(settings: Settings, options: Options) -> Checked:
    """Looks at the input and the output, which are not changed. Raises UsageError for what cannot work."""
    file_systems.set_up(options.beam_args)
    price = check_price(settings)
    layout = check_output(settings)
    last = _last_run(layout)
    prepared = prepare(settings, last.get("carried", {}))
    changed = changes(last["task"], task_fingerprint(settings)) if "task" in last else []
    if changed and options.on_change == "stop":
        what = f"{settings.output.path} holds answers to another task:"
        raise UsageError("\n".join([what, *(f"  {line}" for line in changed), ON_CHANGE]))
    redo = bool(changed) and options.on_change == "redo"
    check_table(settings, layout, last, prepared.schema, redo=redo)
    return Checked(layout, prepared, price, redo)


def launch(settings: Settings, options: Options) -> int:
    """Runs the pipeline and prints its summary. Returns the exit code; raises UsageError before anything is written
    or paid where that cannot work."""
    check_model(settings)
    check_shared(settings)
    checked = check(settings, options)
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
        for note in checked.prepared.notes:
            say(note, error=True)
        return _run(settings, options, checked, output)


def _run(settings: Settings, options: Options, checked: Checked, output: Held) -> int:
    layout, prepared, price, redo = checked
    run_id = new_run_id(layout)
    sign = StopSign(layout.journal(run_id))
    interrupts = Interrupts(partial(sign.set, INTERRUPTED), rolled_journal.save_all)
    table = None if settings.output.table is None else table_spec(settings.output.table, prepared.schema)
    drawn = None
    with ExitStack() as held:
        try:
            if table is not None:
                _add_columns(table)
            finish_commits(layout)
            recovered = []
            for earlier in interrupted_runs(layout):
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
            with showing_progress(layout.root, run_id):
                execute(options.beam_args, lambda pipeline: build(pipeline, spec), verbose=options.verbose)
            account = files.read_json(layout.account(run_id))
        except Exception as error:
            logging.getLogger(__name__).info("the run broke", exc_info=True)
            workers.close_all()
            found = _after_break(layout, run_id, table, output) if interrupts.came() else None
            if found is None:
                print_broken(error, layout)
                return BROKEN_CODE
            account = found
        summary.print_account(account, layout)
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


def make_spec(
    settings: Settings,
    options: Options,
    layout: Layout,
    prepared: Prepared,
    recovered: list[Recovered],
    run_id: str,
    price: Found | None = None,
) -> RunSpec:
    """All that the graph of a run is built from."""
    stamp = RunStamp(run_id, task_hash(settings))
    carried = {name: type_of(kind) for name, kind in prepared.carried.items()}
    header = {
        "run_id": run_id,
        "started_at": utc(time.time()),
        "task_hash": stamp.task_hash,
        "task": task_fingerprint(settings),
        "carried": prepared.carried,
        "config": public(settings),
        "limit": options.limit,
        "price": None if price is None else price.described(),
        "command": options.command,
        "pilot": options.pilot,
    }
    model = settings.model if price is None else settings.model.model_copy(update={"price": price.price})
    most = settings.budget.max_cost_usd
    table = None if settings.output.table is None else table_spec(settings.output.table, prepared.schema)
    results, failures = layout.shards(layout.results), layout.shards(layout.failures)
    runs = frozenset(item.run_id for item in recovered)
    prior: list[Prior | PriorRows] = [
        *(Prior(path, False) for path in results),
        *(Prior(path, True) for path in failures),
    ]
    just_recovered: list[Prior | PriorRows] = [
        *(Prior(path, False) for path in results if files.name(path).rsplit("-", 3)[0] in runs),
        *(Prior(path, True, runs) for path in failures if runs),
    ]
    if table is not None:
        prior = [*prior_ranges(table, run_id)]
        just_recovered = [*prior_ranges(table, run_id, runs)] if runs else []
    return RunSpec(
        output=layout.root,
        header=header,
        inputs=prepared.inputs,
        span_bytes=span_bytes(prepared.inputs),
        reading=prepared.reading,
        rules=Rules(
            task=settings.task,
            input=settings.input,
            model=settings.model,
            columns=carried,
            postgresql=table is not None and table.is_postgresql,
        ),
        call=CallSpec(
            task=settings.task,
            input=settings.input,
            model=model,
            limits=settings.limits,
            max_in_flight=settings.max_in_flight,
            carried=carried,
            stamp=stamp,
            journal=layout.journal(run_id),
            share_identical=settings.shares_identical,
            budget=None if most is None else BudgetSpec(most, spent_usd(layout)),
            ordered=settings.output.order == "input",
            roll=RollRule(settings.output.journal_rows, settings.output.journal_seconds),
        ),
        shards=ShardFormat(
            settings.output.format,
            settings.output.rows_per_shard,
            None if settings.output.format == "jsonl" and table is None else prepared.schema,
            settings.output.escape_formulas,
            settings.output.order == "input",
        ),
        prior=prior,
        recovered=just_recovered,
        prior_failures=failures,
        retry=options.retry,
        retry_reasons=options.retry_reasons,
        limit=options.limit,
        table=table,
    )


def new_run_id(layout: Layout) -> str:
    """An id that sorts after those of all runs before, also where the clock was set back."""
    now = datetime.now(timezone.utc)
    last = _last_run_id(layout)
    if last is not None and last[:15] >= now.strftime(_RUN_ID_TIME):
        now = datetime.strptime(last[:15], _RUN_ID_TIME) + timedelta(seconds=1)
    return f"{now.strftime(_RUN_ID_TIME)}-{secrets.token_hex(3)}"


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


def _last_run_id(layout: Layout) -> str | None:
    known = [*interrupted_runs(layout), *(files.name(path).removesuffix(".json") for path in layout.accounts())]
    return max(known, default=None)


def _last_run(layout: Layout) -> dict[str, Any]:
    """The account of the run before, or the header of its journal; empty where there was none."""
    run_id = _last_run_id(layout)
    if run_id is None:
        return {}
    path = layout.account(run_id)
    try:
        value = files.read_json(path) if files.exists(path) else read_header(layout, run_id)
    except FileNotFoundError:  # cut short before it had begun
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"the account of run {run_id} in {layout.root} cannot be read: {error}") from None
    return value if isinstance(value, dict) else {}
