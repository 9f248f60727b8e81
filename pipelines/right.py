"""How many of the answers are right, by what the input says, as a run's last lines tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.report.figures import percent
from pipelines.terminal import say
from transforms.agreement import judged_column
from transforms.layout import Layout
from transforms.llm.secrets import masked
from transforms.published import Published, Unreadable
from transforms.quality import Confusion
from transforms.rows import EXPECTED


def print_right(account: Mapping[str, Any], layout: Layout) -> None:
    """Says it of all results. Reads two columns of them, all else being done by now: what cannot be read is said."""
    column = judged_column(account["config"])
    if column is None:
        return
    confusion = Confusion()
    try:
        for batch in Published.of(layout, account).results([EXPECTED, column]):
            confusion.add(batch.column(0), batch.column(1))
    except Unreadable as error:
        say(f"how many answers are right is not known: {masked(str(error))}", error=True)
        return
    say(describe_right(confusion))


def describe_right(confusion: Confusion) -> str:
    """E.g. `right: 63 of 67 that say what is right (94.0 %) | 4 do not`."""
    if not confusion.rows:
        return f"right: not known, none of {confusion.unlabelled:,} results says what is right"
    share = percent(confusion.accuracy)
    parts = [f"right: {confusion.correct:,} of {confusion.rows:,} that say what is right ({share})"]
    if confusion.unlabelled:
        parts.append(f"{confusion.unlabelled:,} do not")
    return " | ".join(parts)
