"""`--pilot N`: a sample of the rows is done for real, and tells what the rest will take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from pipelines.figures import Figures, count, table
from pipelines.graph import RunSpec
from pipelines.invocation import without
from pipelines.options import Options
from pipelines.survey import survey
from pipelines.terminal import say
from transforms.account import COMPLETE, PILOT, spent_usd
from transforms.digests import digest
from transforms.layout import Layout
from transforms.learned import of_run
from transforms.llm.price_table import Found
from transforms.published import Published
from transforms.resume import Retry, done_ids
from transforms.sample import threshold
from transforms.settings import Settings
from transforms.survey import Survey


class Drawn(NamedTuple):
    """A pilot before it runs: the run that does the sample alone, and what the input holds."""

    spec: RunSpec
    seen: Survey


def draw(spec: RunSpec, rows: int, beam_args: Sequence[str]) -> Drawn:
    """Looks through the input for the sample. Nothing is called."""
    say("pilot: reading the input for its sample", error=True)
    seen = survey(spec, beam_args, pilot=rows)
    say(f"pilot: {count(len(seen.picked))} of {count(seen.todo)} rows to do", error=True)
    return Drawn(replace(spec, sample=threshold(seen.picked, rows)), seen)


def print_projection(
    settings: Settings, options: Options, drawn: Drawn, account: dict[str, Any], price: Found | None
) -> None:
    """What the rest will take, and the command that does it. Nothing where the pilot did not come to its end: those
    that answer fast would speak for all."""
    if account["status"] != COMPLETE and account["stop_reason"] != PILOT:
        return
    layout, run_id = Layout(drawn.spec.output), account["run_id"]
    sizes = {item.digest: item.size for item in drawn.seen.picked}
    published = Published.of(layout, account)
    observed = [item.observation._replace(size=sizes.get(item.digest)) for item in of_run(published, run_id)]
    done = _done(published.of_run(run_id), options.retry, options.retry_reasons)
    rest = drawn.seen.todo - len(done), drawn.seen.todo_size - sum(sizes.get(value, 0) for value in done)
    if not rest[0]:
        say("\nthe pilot was all there was to do")
        return
    source = f"from the pilot's {count(len(observed))} rows"
    figures = Figures(settings, price, observed, source, *rest)
    say("\nthe rest, with ranges that hold in 95 of 100 cases:")
    say(table([("rows to do", count(rest[0]), ""), *figures.lines(spent_usd(layout))]))
    say(f"go on with: {without(options.command, '--pilot')}")


def _done(published: Published, retry: Retry, reasons: tuple[str, ...]) -> set[bytes]:
    """Digests of what is done for good; a failure that may be tried again is left to do."""
    return {digest(identifier) for prior in published.priors() for identifier in done_ids(prior, retry, reasons)}
