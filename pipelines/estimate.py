"""`--estimate`: what a run would find, cost and take, said without a call and without a change to the output."""

from __future__ import annotations

from dataclasses import replace

from pipelines.broken import root_cause
from pipelines.check import Checked, check
from pipelines.config import UsageError, task_hash
from pipelines.earlier_runs import new_run_id
from pipelines.figures import Figures, Line, count, table
from pipelines.graph import RunSpec
from pipelines.launch import BROKEN_CODE
from pipelines.options import Options
from pipelines.prepare import check_request
from pipelines.run_spec import make_spec
from pipelines.survey import survey
from pipelines.terminal import say
from transforms.database import DatabaseError
from transforms.learned import learned
from transforms.llm.secrets import masked
from transforms.resume import Prior
from transforms.settings import Settings
from transforms.standing import Standing, standing
from transforms.survey import Survey
from transforms.table import has_tables, table_spec


def estimate(settings: Settings, options: Options) -> int:
    """Prints the estimate. Returns the exit code; raises UsageError as a run would, save for a key that is not set."""
    check_request(settings)
    checked = check(settings, options)
    try:
        found = stands(settings, checked)
        known = learned(found, task_hash(settings))
        spec = spec_of(settings, options, checked, found)
    except (OSError, ValueError, DatabaseError) as error:
        raise UsageError(f"output.path: {error}") from None
    digests = b"".join(item.digest for item in known)
    say("estimate: reading the input", error=True)
    try:
        seen = survey(spec, options.beam_args, digests=digests, pilot=options.pilot)
    except Exception as error:
        say(f"paidonce: the estimate broke: {masked(root_cause(error))}", error=True)
        return BROKEN_CODE
    observed = [item.observation._replace(size=seen.met.get(at)) for at, item in enumerate(known)]
    source = f"from {count(len(known))} earlier row{'' if len(known) == 1 else 's'} of this task"
    figures = Figures(settings, checked.price, observed, source, seen.todo, seen.todo_size)
    say(table([*row_lines(seen), ("", "", ""), *figures.lines(found.spent_usd)]))
    part = taken(options, seen)
    if part is not None:
        name, rows, size = part
        fewer = replace(figures, rows=rows, size=size)
        say("\n" + table([(name, count(rows), f"of {count(seen.todo)} rows to do"), *fewer.lines(found.spent_usd)]))
    for message in seen.unreadable:
        say(f"unreadable input: {masked(message)}", error=True)
    say("\nestimate only: nothing was called or changed")
    return 0


def stands(settings: Settings, checked: Checked) -> Standing:
    """What the output holds, in its files or its tables. Raises OSError, ValueError or DatabaseError where it cannot be
    read."""
    name = settings.output.table
    table = None if name is None else table_spec(name)
    is_there = table is None or has_tables(table)
    return standing(checked.layout, table if is_there else None)


def spec_of(settings: Settings, options: Options, checked: Checked, found: Standing) -> RunSpec:
    """The run as it would be, with journals that are not published yet among what it finds done."""
    layout = checked.layout
    spec = make_spec(settings, options, layout, checked.prepared, [], new_run_id(layout), checked.price)
    if checked.redo:
        return replace(spec, prior=[], recovered=[], prior_failures=[])
    journals = [Prior(path, False, is_journal=True) for path in found.journals]
    published = found.published
    return replace(
        spec,
        prior=[*published.priors(), *journals],
        recovered=journals,
        prior_failures=list(published.failure_files),
    )


def row_lines(seen: Survey) -> list[Line]:
    """Where each row of the input goes."""
    unpublished = f"{count(seen.unpublished)} of them in journals of runs that were cut short"
    duplicates = seen.set_aside.get("duplicate_id", 0)
    aside = {reason: rows for reason, rows in seen.set_aside.items() if reason != "duplicate_id"}
    return [
        ("rows", count(seen.total), ""),
        ("done", count(seen.done), unpublished if seen.unpublished else ""),
        (
            "repeated",
            count(seen.identical + duplicates),
            f"identical {count(seen.identical)}, duplicate_id {count(duplicates)}",
        ),
        ("set aside", count(sum(aside.values())), ", ".join(f"{name} {count(rows)}" for name, rows in aside.items())),
        ("to do", count(seen.todo), ""),
    ]


def taken(options: Options, seen: Survey) -> tuple[str, int, int] | None:
    """What --limit or --pilot makes of it: the flag, rows and bytes. None without either."""
    if options.limit is not None:
        return f"--limit {options.limit}", seen.taken, seen.taken_size
    if options.pilot is not None:
        return f"--pilot {options.pilot}", len(seen.picked), sum(item.size for item in seen.picked)
    return None
