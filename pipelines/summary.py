"""What a run leaves on the terminal when it ends."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from pipelines.terminal import say
from transforms import files
from transforms.account import AS_ASKED, COMPLETE, FAILED, PILOT
from transforms.agreement import Agreement, answer_column
from transforms.layout import Layout
from transforms.llm.price_table import Found
from transforms.llm.secrets import masked
from transforms.recover import Recovered
from transforms.reserve import FULL
from transforms.results import result_batches
from transforms.rows import EXPECTED
from transforms.settings import Model, Task
from transforms.stop import INTERRUPTED
from transforms.table import table_spec

_ERRNO = re.compile(r"OSError: \[Errno (\d+)\]")
COUNTS = ("total", "skipped", "recovered", "ok", "failed", "unprocessed")


def exit_code(account: dict[str, Any]) -> int:
    """The exit code that an account stands for."""
    if account["status"] == COMPLETE or account["stop_reason"] in AS_ASKED:
        return 0
    if account["status"] == FAILED:
        return 1
    return 130 if account["stop_reason"] == INTERRUPTED else 3


def dollars(amount: float | None) -> str:
    """A cost for people: four decimals, or that it is not known."""
    return "cost unknown" if amount is None else f"${amount:,.4f}"


def print_recovered(recovered: Sequence[Recovered]) -> None:
    """Says what was published of runs that were cut short."""
    for run in recovered:
        if run.ok or run.failed or run.damaged:
            damaged = f", {run.damaged} unreadable lines" if run.damaged else ""
            say(f"recovered run {run.run_id}: {run.ok} answers, {run.failed} failures{damaged}", error=True)


def print_account(account: dict[str, Any], layout: Layout) -> None:
    """The account of a run that reached its end, early or not."""
    print_figures(account)
    if account["notes"]:
        say("notes: " + ", ".join(f"{name} {count:,}" for name, count in account["notes"].items()))
    table = account["config"].get("output", {}).get("table")
    if table:
        spec = table_spec(table)
        say(f"results:  {spec.place}")
        say(f"failures: {spec.place}_failures")
    else:
        say(f"results:  {_where(layout, layout.results)}")
        say(f"failures: {_where(layout, layout.failures)}")
    say(f"account:  {layout.account(account['run_id'])}")
    if account["status"] != COMPLETE:
        say(f"{account['status']}: {account['stop_reason']}", error=True)
        if account["unprocessed"] and account["stop_reason"] != PILOT:
            say(f"{account['unprocessed']} rows are left; the same command goes on with them", error=True)


def print_figures(account: dict[str, Any]) -> None:
    """What happened to the rows of a run, and what that took."""
    say(" | ".join(f"{name} {account[name]}" for name in COUNTS))
    reasons = account["failures_by_reason"]
    if reasons:
        say("failures: " + ", ".join(f"{reason} {count}" for reason, count in reasons.items()))
    if account["calls"]:
        tokens = [account["prompt_tokens"], account["completion_tokens"]]
        shown = " + ".join("unknown" if count is None else f"{count:,}" for count in tokens)
        parts = [f"calls: {account['calls']:,}", f"tokens: {shown}"]
        if account["cost_usd"] is not None or account["config"]["model"]["provider"] != "embedded":
            parts.append(dollars(account["cost_usd"]))  # running a model of one's own has no price that one looks for
        if account["maybe_billed_attempts"]:
            parts.append(f"attempts without an answer that may be billed: {account['maybe_billed_attempts']:,}")
        say(" | ".join(parts))


def print_right(task: Task, layout: Layout) -> None:
    """How many of all results are right, by what the input says. Reads two columns of them."""
    assert task.expected is not None
    column = answer_column(task.answer_schema, task.expected)
    agreement, results = Agreement(), 0
    try:
        for path in layout.shards(layout.results):
            for batch in result_batches(path, [column, EXPECTED]):
                results += batch.num_rows
                agreement.add(batch.column(0), batch.column(1))
    except (OSError, ValueError) as error:
        say(f"how many answers are right is not known: {masked(str(error))}", error=True)
        return
    say(describe_right(agreement, results))


def describe_right(agreement: Agreement, results: int) -> str:
    """E.g. `right: 63 of 67 that say what is right (94.0 %) | 4 do not`."""
    if agreement.share is None:
        return f"right: not known, none of {results:,} results says what is right"
    parts = [f"right: {agreement.equal:,} of {agreement.pairs:,} that say what is right ({agreement.share:.1%})"]
    if results > agreement.pairs:
        parts.append(f"{results - agreement.pairs:,} do not")
    return " | ".join(parts).replace("%", " %")


def print_price(found: Found | None, model: Model) -> None:
    """Says what costs are reckoned by, where the user did not: what the package knows of a model may be outdated,
    or not be what this endpoint charges."""
    if found is None:
        say(f"no price is known for model {model.name}: costs stay empty; set model.price", error=True)
    elif found.price is not model.price:
        say(
            f"price: ${found.price.input:g} in, ${found.price.output:g} out per million tokens ({found.source}; "
            "model.price sets another)",
            error=True,
        )


def print_broken(error: BaseException, layout: Layout) -> None:
    """Why a run broke, and what that means for what was paid."""
    cause = root_cause(error)
    number = _ERRNO.search(cause)
    if number is not None and int(number[1]) in FULL:
        say(
            f"paidonce: the disk of {layout.root} is full: every answer so far is kept in {layout.journals}; make room "
            "and run the same command again, it publishes them and goes on",
            error=True,
        )
        return
    if files.is_local(layout.root) and not os.path.isdir(layout.journals):
        say(f"paidonce: {layout.root} was removed or moved while the run was on, and the answers with it", error=True)
        return
    say(f"paidonce: the run broke: {masked(cause)}", error=True)
    say(f"every answer so far is kept in {layout.journals}; the same command publishes them and goes on", error=True)


def root_cause(error: BaseException) -> str:
    """The line of an engine's report that says what went wrong: engines hand on a worker's traceback as text."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    found = [line for line in lines if _names_error(line)]
    text = found[-1] if found else (lines[-1] if lines else "")
    return text if found else f"{type(error).__name__}: {text}"


def _names_error(line: str) -> bool:
    name, colon, _rest = line.partition(":")
    return bool(colon) and name.replace(".", "").isidentifier() and name.endswith(("Error", "Exception"))


def _where(layout: Layout, folder: str) -> str:
    shards = layout.shards(folder)
    return f"{folder} ({len(shards)} file{'' if len(shards) == 1 else 's'})"
