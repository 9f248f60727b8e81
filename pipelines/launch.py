"""One run, from the lock on its output to the account."""

from __future__ import annotations

import logging
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta, timezone
from types import FrameType
from typing import Any

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions, StandardOptions

from pipelines import summary
from pipelines.config import UsageError, changes, public, task_fingerprint, task_hash
from pipelines.graph import RunSpec, build
from pipelines.options import Options, hide_secrets
from pipelines.prepare import Prepared, check_model, check_output, check_price, prepare
from pipelines.progress import showing_progress
from pipelines.terminal import say
from transforms import files, rolled_journal, workers
from transforms.account import spent_usd
from transforms.ask import CallSpec
from transforms.budget import BudgetSpec
from transforms.commit import carry_out, plan_commit
from transforms.layout import Layout
from transforms.llm.price_table import Found
from transforms.lock import Held, Locked, lock
from transforms.read import span_bytes
from transforms.records import utc
from transforms.recover import Recovered, finish_commits, interrupted_runs, read_header, recover, write_header
from transforms.resume import Prior
from transforms.rolled_journal import RollRule
from transforms.rows import ARROW_TYPES, RunStamp
from transforms.screen import Rules
from transforms.settings import Settings
from transforms.stop import INTERRUPTED, LOCK_LOST, StopSign
from transforms.write import ShardFormat

# Runs in this process. What Beam calls DirectRunner may first download another program to run the graph with.
DEFAULT_RUNNER = "FnApiRunner"
BROKEN_CODE, INTERRUPTED_CODE = 1, 130
_RUN_ID_TIME = "%Y%m%dT%H%M%S"


def launch(settings: Settings, options: Options) -> int:
    """Runs the pipeline and prints its summary. Returns the exit code; raises UsageError before anything is written
    or paid where that cannot work."""
    pipeline_options = PipelineOptions(options.beam_args)
    hide_secrets(pipeline_options)
    FileSystems.set_options(pipeline_options)  # before the first file is looked for on a store
    check_model(settings)
    price = check_price(settings)
    layout = check_output(settings)
    last = _last_run(layout)
    prepared = prepare(settings, last.get("carried", {}))
    changed = changes(last["task"], task_fingerprint(settings)) if "task" in last else []
    if changed and options.on_change == "stop":
        raise UsageError(
            f"{settings.output.path} holds answers to another task ({'; '.join(changed)}): choose "
            "--on-change=keep to keep them and do the rest, --on-change=redo to do all again, or another --output"
        )
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
            summary.print_price(price, settings.model)
        redo = bool(changed) and options.on_change == "redo"
        return _run(settings, options, layout, prepared, price, output, redo=redo)


def _run(
    settings: Settings,
    options: Options,
    layout: Layout,
    prepared: Prepared,
    price: Found | None,
    output: Held,
    *,
    redo: bool,
) -> int:
    run_id = new_run_id(layout)
    sign = StopSign(layout.journal(run_id))
    interrupts = _Interrupts(sign)
    try:
        finish_commits(layout)
        recovered = []
        for earlier in interrupted_runs(layout):
            output.check()
            recovered.append(recover(layout, earlier))
        output.check()
        summary.print_recovered(recovered)
        if redo:
            _set_aside(layout, run_id)
        spec = make_spec(settings, options, layout, prepared, [] if redo else recovered, run_id, price)
        write_header(layout, spec.header, spec.shards)
        output.on_lost(lambda message: sign.set(LOCK_LOST, message))
        with interrupts.handled(), showing_progress(layout.root, run_id):
            _submit(spec, options)
        account = files.read_json(layout.account(run_id))
    except Exception as error:
        logging.getLogger(__name__).info("the run broke", exc_info=True)
        workers.close_all()
        interrupted = recover(layout, run_id).account if interrupts.came and not output.lost else None
        if interrupted is None:
            summary.print_broken(error, layout)
            return BROKEN_CODE
        account = interrupted  # the engine ended before its graph did; what was answered is published all the same
    summary.print_account(account, layout)
    return summary.exit_code(account)


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
    carried = {name: ARROW_TYPES[kind] for name, kind in prepared.carried.items()}
    header = {
        "run_id": run_id,
        "started_at": utc(time.time()),
        "task_hash": stamp.task_hash,
        "task": task_fingerprint(settings),
        "carried": prepared.carried,
        "config": public(settings),
        "price": None if price is None else price.described(),
    }
    model = settings.model if price is None else settings.model.model_copy(update={"price": price.price})
    most = settings.budget.max_cost_usd
    results, failures = layout.shards(layout.results), layout.shards(layout.failures)
    runs = frozenset(item.run_id for item in recovered)
    return RunSpec(
        output=layout.root,
        header=header,
        inputs=prepared.inputs,
        span_bytes=span_bytes(prepared.inputs),
        id_column=settings.input.id,
        rules=Rules(
            prompt=settings.task.prompt,
            text_column=settings.input.text,
            max_chars=settings.input.max_chars,
            truncate=settings.input.on_oversized == "truncate",
            columns=carried,
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
            budget=None if most is None else BudgetSpec(most, spent_usd(layout)),
            roll=RollRule(settings.output.journal_rows, settings.output.journal_seconds),
        ),
        shards=ShardFormat(
            settings.output.format,
            settings.output.rows_per_shard,
            prepared.schema if settings.output.format == "parquet" else None,
        ),
        prior=[*(Prior(path, False) for path in results), *(Prior(path, True) for path in failures)],
        recovered=[
            *(Prior(path, False) for path in results if files.name(path).rsplit("-", 3)[0] in runs),
            *(Prior(path, True, runs) for path in failures if runs),
        ],
        prior_failures=failures,
        retry=options.retry,
        limit=options.limit,
    )


def new_run_id(layout: Layout) -> str:
    """An id that sorts after those of all runs before, also where the clock was set back."""
    now = datetime.now(timezone.utc)
    last = _last_run_id(layout)
    if last is not None and last[:15] >= now.strftime(_RUN_ID_TIME):
        now = datetime.strptime(last[:15], _RUN_ID_TIME) + timedelta(seconds=1)
    return f"{now.strftime(_RUN_ID_TIME)}-{secrets.token_hex(3)}"


def _submit(spec: RunSpec, options: Options) -> None:
    pipeline_options = PipelineOptions(options.beam_args)
    if pipeline_options.view_as(StandardOptions).runner is None:
        pipeline_options.view_as(StandardOptions).runner = DEFAULT_RUNNER
    pipeline = beam.Pipeline(options=pipeline_options)
    build(pipeline, spec)
    pipeline.run().wait_until_finish()


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


class _Interrupts:
    """Ctrl-C and SIGTERM stop the run softly: no new calls, all answers kept. The second time ends it at once."""

    def __init__(self, stop: StopSign) -> None:
        self.came = False
        self._stop = stop

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Takes the signals until the block ends."""
        before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.came:
            _end_at_once()
            return
        self.came = True
        say("\nstopping: calls under way are finished and kept (once more: at once)", error=True)
        # By a thread: a store's client may be in the middle of something in the one that the signal came to.
        threading.Thread(target=self._stop.set, args=(INTERRUPTED, signal.Signals(number).name)).start()


def _end_at_once() -> None:
    """Ends the process. The journal has every answer, or is given the time of one save for the last of them on a
    store; nothing else is worth waiting for."""
    if not rolled_journal.is_open():
        os._exit(INTERRUPTED_CODE)
    for seconds, last in ((0.0, rolled_journal.save_all), (rolled_journal.GRACE_SECONDS, None)):
        timer = threading.Timer(seconds, _end_after, (last,))
        timer.daemon = True
        timer.start()


def _end_after(last: Callable[[], None] | None) -> None:
    if last is not None:
        last()
    os._exit(INTERRUPTED_CODE)
