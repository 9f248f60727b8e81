"""What is looked at before a run begins, and before anything is written or paid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pipelines import file_systems
from pipelines.config import UsageError, changes, task_fingerprint
from pipelines.earlier_runs import last_run
from pipelines.options import Options
from pipelines.prepare import Prepared, check_output, check_price, check_table, prepare
from pipelines.worker_places import Place, check_paths, place
from transforms.layout import Layout
from transforms.llm.price_table import Found
from transforms.settings import Settings

ON_CHANGE = (
    "choose --on-change=keep to keep them and do the rest, --on-change=redo to do all again, or another --output"
)


class Checked(NamedTuple):
    """What is known of a run before it begins. `redo`: what the output holds is to be done again; `workers`: where
    they are."""

    layout: Layout
    prepared: Prepared
    price: Found | None
    redo: bool
    workers: Place


def check(settings: Settings, options: Options) -> Checked:
    """Looks at the input and the output, which are not changed. Raises UsageError for what cannot work."""
    file_systems.set_up(options.beam_args)
    price = check_price(settings)
    layout = check_output(settings)
    workers = place(options.beam_args)
    if not options.shared_paths:
        check_paths(workers, _paths(settings))
    last = last_run(layout)
    prepared = prepare(settings, last.get("carried", {}))
    changed = changes(last["task"], task_fingerprint(settings)) if "task" in last else []
    if changed and options.on_change == "stop":
        what = f"{settings.output.path} holds answers to another task:"
        raise UsageError("\n".join([what, *(f"  {line}" for line in changed), ON_CHANGE]))
    redo = bool(changed) and options.on_change == "redo"
    check_table(settings, layout, last, prepared.schema, redo=redo)
    return Checked(layout, prepared, price, redo, workers)


def _paths(settings: Settings) -> Iterator[tuple[str, str]]:
    """The paths that workers have to reach, each with its key."""
    yield "output.path", settings.output.path
    yield from (("input.path", path) for path in settings.input.paths)
    if settings.output.table is not None:
        yield "output.table", settings.output.table
