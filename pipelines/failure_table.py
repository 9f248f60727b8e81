"""Failures by reason on the terminal: how many, what they cost, examples, and how they are tried again."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.invocation import again
from pipelines.table import cut, table, terminal_width
from pipelines.terminal import say
from transforms.failures import ReasonCount
from transforms.llm.text import excerpt

_LONG_ID = 40  # characters of an id that a terminal shows in front of the message


def print_failures(counts: Sequence[ReasonCount], command: str | None) -> None:
    """Prints them, and how they are tried again by `command`, that of the last run where it is known."""
    width = terminal_width()
    rows = [["reason", "rows", "tried again", "cost", "example"]]
    for count in counts:
        for at, row in enumerate(count.examples):
            identifier = row["id"]
            name = "(no id)" if identifier is None else excerpt(identifier, _LONG_ID if width else len(identifier))
            shown = f"{name}: {row.get('message') or ''}"
            rows.append([*(_cells(count) if at == 0 else ["", "", "", ""]), shown])
    for line in table(rows, right=(1, 3), width=width):
        say(line)
    total = sum(count.rows for count in counts)
    costs = [count.cost_usd for count in counts if count.cost_usd is not None]
    say(cut(f"{total:,} in all{f', which cost ${sum(costs):,.4f}' if costs else ''}", width))
    for line in _advice(counts, command):
        say(line)


def _cells(count: ReasonCount) -> list[str]:
    if count.uncalled:
        tried = "looked at anew"
    elif count.retryable == count.rows:
        tried = "yes"
    else:
        tried = "if asked" if count.retryable == 0 else f"{count.retryable:,} of them"
    cost = "" if count.cost_usd is None else f"${count.cost_usd:,.4f}"
    return [count.reason, f"{count.rows:,}", tried, cost]


def _advice(counts: Sequence[ReasonCount], command: str | None) -> list[str]:
    lines = []
    final = [count.reason for count in counts if not count.uncalled and count.retryable < count.rows]
    if any(count.retryable for count in counts):
        lines += ["", "those that may pass are tried again by the same command:", f"  {_again(command)}"]
    if final:
        flag = f"--retry-reason={','.join(final)}"
        lines += ["", "to try those again that are final for now:", f"  {_again(command, flag)}"]
        lines += ["or every failure, whatever its reason:", f"  {_again(command, '--retry=all')}"]
    if any(count.uncalled for count in counts):
        lines += [
            "",
            "those that were set aside before a call are looked at anew by every run: change the record, or the "
            "setting that its message names",
        ]
    return lines


def _again(command: str | None, *flags: str) -> str:
    return again(command, *flags) if command else " ".join(["(the command of the run)", *flags])
