"""Two outputs side by side on the terminal."""

from __future__ import annotations

from typing import Any

import numpy as np

from pipelines.compared import Compared, Pair
from pipelines.differing import differing_rows
from pipelines.fingerprint import changes
from pipelines.report.figures import percent
from pipelines.table import table, terminal_width
from pipelines.terminal import say
from transforms.comparison import Comparison
from transforms.llm.text import excerpt
from transforms.mcnemar import mcnemar

SHOWN_ROWS = 20


def print_comparison(pair: Pair, comparison: Comparison) -> None:
    """Prints all of it, of the rows that differ the first SHOWN_ROWS. Raises Unreadable."""
    a, b = pair.a, pair.b
    width = terminal_width()
    both = len(comparison)
    for each, side in ((a, comparison.a), (b, comparison.b)):
        model = ((each.output.account.get("config") or {}).get("model") or {}).get("name")
        described = [f"{len(side):,} results", *([f"model {model}"] if model else [])]
        say(f"{each.name}: {each.path} ({', '.join(described)})")
    _print_task(a, b)
    say(f"rows in both {both:,} | only in A {len(comparison.a) - both:,} | only in B {len(comparison.b) - both:,}")
    say("")
    rows = [["column", "compared", "the same", "share", "kappa"]]
    for name in pair.columns:
        agreement = comparison.agreement(name)
        kappa = "" if agreement.kappa is None else f"{agreement.kappa:.3f}"
        rows.append([name, f"{agreement.rows:,}", f"{agreement.correct:,}", percent(agreement.accuracy), kappa])
    for line in table(rows, right=(1, 2, 3, 4), width=width):
        say(line)
    _print_right(comparison)
    say("")
    for line in table(_figures(comparison), right=(1, 2), width=width):
        say(line)
    _print_differing(pair, comparison, width)


def _print_task(a: Compared, b: Compared) -> None:
    one, other = (each.output.account.get("task") for each in (a, b))
    if not isinstance(one, dict) or not isinstance(other, dict):
        say("the tasks are not known: there is no account")
        return
    changed = changes(one, other)
    say("the same task" if not changed else "from A to B the task changed:")
    for line in changed:
        say(f"  {line}")


def _print_right(comparison: Comparison) -> None:
    right_a, right_b = comparison.right_or_wrong()
    if not (right_a >= 0).any() and not (right_b >= 0).any():
        return
    say("")
    for name, right in (("A", right_a), ("B", right_b)):
        judged = int((right >= 0).sum())
        count = int((right == 1).sum())
        say(f"{name} is right in {count:,} of {judged:,} ({percent(count / judged if judged else None)})")
    only_a = int(((right_a == 1) & (right_b == 0)).sum())
    only_b = int(((right_a == 0) & (right_b == 1)).sum())
    chance = f"McNemar's exact test: p = {mcnemar(only_a, only_b):.3g}"
    say(f"A right and B wrong {only_a:,} | A wrong and B right {only_b:,} | {chance}")


def _figures(comparison: Comparison) -> list[list[str]]:
    def total(known: Any) -> Any:
        return known.sum(dtype=np.float64)

    def cells(name: str, figure: Any, form: str) -> list[str]:
        shown = []
        for values in comparison.figure(name):
            known = values[~np.isnan(values)]
            unknown = len(values) - len(known)
            text = form.format(figure(known)) if len(known) else "not known"
            shown.append(f"{text} ({unknown:,} not known)" if unknown and len(known) else text)
        return shown

    return [
        ["of the rows in both", "A", "B"],
        ["cost", *cells("cost_usd", total, "${:,.4f}")],
        ["cost of 1,000 rows", *cells("cost_usd", lambda known: 1000 * total(known) / len(known), "${:,.4f}")],
        ["prompt tokens", *cells("prompt_tokens", total, "{:,.0f}")],
        ["completion tokens", *cells("completion_tokens", total, "{:,.0f}")],
        ["latency, median", *cells("latency_ms", np.median, "{:,.0f} ms")],
        ["latency, 95 % of rows below", *cells("latency_ms", lambda known: np.percentile(known, 95), "{:,.0f} ms")],
    ]


def _print_differing(pair: Pair, comparison: Comparison, width: int | None) -> None:
    rows_a, rows_b = comparison.differing(pair.columns)
    if not len(rows_a):
        say("\nno row differs")
        return
    more = f", the first {SHOWN_ROWS}" if len(rows_a) > SHOWN_ROWS else ""
    say(f"\n{len(rows_a):,} rows differ{more}:" if len(rows_a) > 1 else "\n1 row differs:")
    found = list(differing_rows(pair, rows_a[:SHOWN_ROWS], rows_b[:SHOWN_ROWS]))
    heads = [name for name in found[0] if name == "id" or name not in pair.a.carried]
    if all(row.get("expected") is None for row in found):
        heads = [name for name in heads if name != "expected"]
    texts = [name for name in found[0] if name in pair.a.carried]
    longest = 40 if width else 2000
    cells = [[excerpt(_shown(row[name]), longest) for name in [*heads, *texts]] for row in found]
    for line in table([[*heads, *texts], *cells], width=width):
        say(line)


def _shown(value: str | None) -> str:
    return "null" if value is None else value
