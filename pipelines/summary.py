"""What a run leaves on the terminal when it ends."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from pipelines.terminal import say
from transforms.account import AS_ASKED, COMPLETE, FAILED, PILOT
from transforms.layout import Layout
from transforms.llm.price_table import Found
from transforms.recover import Recovered
from transforms.rows import UNCALLED
from transforms.settings import Model
from transforms.stop import INTERRUPTED
from transforms.table import table_spec

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


def print_account(account: dict[str, Any], layout: Layout, measured: str | None = None) -> None:
    """The account of a run that reached its end, early or not, and the line on what its engine has `measured`."""
    print_figures(account)
    if measured:
        say(measured)
    if account["notes"]:
        say("notes: " + ", ".join(f"{name} {count:,}" for name, count in account["notes"].items()))
    print_places(account, layout)
    if account["status"] != COMPLETE:
        say(f"{account['status']}: {account['stop_reason']}", error=True)
        if account["unprocessed"] and account["stop_reason"] != PILOT:
            say(f"{account['unprocessed']} rows are left; the same command goes on with them", error=True)


def print_places(account: dict[str, Any], layout: Layout) -> None:
    """Where all of it is, and what tells more of failures where calls failed."""
    table = (account["config"].get("output") or {}).get("table")
    if table:
        spec = table_spec(table)
        say(f"results:  {spec.place}")
        say(f"failures: {spec.place}_failures")
    else:
        say(f"results:  {_where(layout, layout.results)}")
        say(f"failures: {_where(layout, layout.failures)}")
    if account.get("carried_failures") or account["failures_by_reason"].keys() - UNCALLED:
        say(f"reasons:  python -m pipelines.failures {shlex.quote(layout.root)}")
    say(f"account:  {layout.account(account['run_id'])}")


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


def _where(layout: Layout, folder: str) -> str:
    shards = layout.shards(folder)
    return f"{folder} ({len(shards)} file{'' if len(shards) == 1 else 's'})"
