"""From settings, flags and what was found out before a run to all that its graph is built from."""

from __future__ import annotations

import time

from pipelines.config import public, task_fingerprint, task_hash
from pipelines.graph import RunSpec
from pipelines.options import Options
from pipelines.prepare import Prepared
from transforms import files
from transforms.account import spent_usd
from transforms.budget import BudgetSpec
from transforms.call_spec import CallSpec
from transforms.layout import Layout
from transforms.llm.price_table import Found
from transforms.read import span_bytes
from transforms.records import utc
from transforms.recover import Recovered
from transforms.resume import Prior
from transforms.rolled_journal import RollRule
from transforms.rows import RunStamp, type_of
from transforms.screen import Rules
from transforms.settings import Settings
from transforms.shards import ShardFormat
from transforms.table import table_spec
from transforms.table_ids import PriorRows, prior_ranges


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
