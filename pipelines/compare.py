"""`python -m pipelines.compare OUT_A OUT_B`: two outputs side by side, row by row."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines import outputs
from pipelines.fingerprint import changes
from pipelines.terminal import say
from pipelines.usage import UsageError

if TYPE_CHECKING:
    from transforms.comparison import Comparison
    from transforms.layout import Layout

SHOWN_ROWS = 20
_FORMATS = (".jsonl", ".csv", ".parquet")

_EPILOG = """\
examples:
  %(prog)s out/mini out/large
      does the large model answer otherwise, is it right more often, and what does it cost more?
  %(prog)s out/old out/new --write changed.csv
      what a new prompt changes: all rows that differ, for a spreadsheet; .jsonl and .parquet are written as well

Rows are joined by id. Columns are those of both answers' schemas; without schemas the texts of the answers. Values
are compared as text, without the white space around it. Which are right is told by the results' column expected,
which task.expected fills. Costs, tokens and latency are those of the rows that both have.

exit codes: 0 compared, whether they differ or not; 2 wrong usage, no results, no id or no column in common, or a
file that cannot be read
"""


class Output(NamedTuple):
    """One of the two outputs: `columns` are its answer columns, `carried` the input's that its results have."""

    name: str
    path: str
    layout: Layout
    shards: list[str]
    account: dict[str, Any]
    columns: list[str]
    carried: list[str]
    judged: str | None


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    return outputs.run(_compare, argv)


def _compare(argv: Sequence[str]) -> None:
    given = _parser().parse_args(argv)
    if given.write is not None and not given.write.endswith(_FORMATS):
        raise UsageError(f"--write: {given.write} must end with {', '.join(_FORMATS)}, which says the format")
    a, b = _open("A", given.a), _open("B", given.b)
    if given.write is not None:
        outputs.check_new(given.write, [a.layout, b.layout], "--write")
    common = [name for name in a.columns if name in b.columns]
    if not common:
        raise UsageError(
            f"no answer column in common: {a.path} has {', '.join(a.columns)}, {b.path} has {', '.join(b.columns)}"
        )
    for output in (a, b):
        outputs.say_unpublished(output.layout, output.path)

    from transforms.comparison import Comparison, Side

    a, b = _judged(a, b), _judged(b, a)
    try:
        side_a, side_b = (Side(each.shards, each.columns, each.judged).load() for each in (a, b))
        comparison = Comparison.of(side_a, side_b)
        del side_a, side_b
        _print(a, b, comparison, common)
        if given.write is not None:
            _write(given.write, a, b, comparison, common)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None


def _open(name: str, path: str) -> Output:
    from transforms.agreement import OUTPUT_TEXT, answer_column
    from transforms.rows import EXPECTED, LAST_COLUMNS, SHARING_COLUMNS

    layout = outputs.open_output(path)
    shards = layout.shards(layout.results)
    if not shards:
        raise UsageError(f"{path}: there are no results to compare")
    account = outputs.last_account(layout)
    config = account.get("config") or {}
    task = config.get("task") or {}
    present = _columns(shards)
    carry = (config.get("input") or {}).get("carry") or ()
    last = {known for known, _type in [*LAST_COLUMNS, *SHARING_COLUMNS]}
    rest = [column for column in present if column not in ("id", EXPECTED) and column not in last]
    schema = task.get("schema")
    if account:
        answers = [column for column in (schema or {}).get("properties", {}) if column in present] or [OUTPUT_TEXT]
        carried = [column for column in rest if column in carry]
    else:  # whoever removed the account has no configuration: all that a run does not write itself is an answer
        answers, carried = rest or [OUTPUT_TEXT], []
    try:
        judged = answer_column(schema, task["expected"]) if task.get("expected") else None
    except ValueError:
        judged = None
    return Output(name, path, layout, shards, account, answers, carried, judged if judged in answers else None)


def _judged(output: Output, other: Output) -> Output:
    """An output that does not say what its answers are compared with is judged as the other one."""
    if output.judged is None and other.judged in output.columns:
        return output._replace(judged=other.judged)
    return output


def _columns(shards: Sequence[str]) -> list[str]:
    from transforms.results import result_columns

    try:
        return list(dict.fromkeys(name for path in shards for name in result_columns(path)))
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None


def _print(a: Output, b: Output, comparison: Comparison, common: Sequence[str]) -> None:
    from pipelines.table import table, terminal_width

    width = terminal_width()
    both = len(comparison)
    for output, side in ((a, comparison.a), (b, comparison.b)):
        model = ((output.account.get("config") or {}).get("model") or {}).get("name")
        described = [f"{len(side):,} results", *([f"model {model}"] if model else [])]
        say(f"{output.name}: {output.path} ({', '.join(described)})")
    _print_task(a, b)
    say(f"rows in both {both:,} | only in A {len(comparison.a) - both:,} | only in B {len(comparison.b) - both:,}")
    if not both:
        raise UsageError(f"{a.path} and {b.path} have no id in common")
    say("")
    rows = [["column", "compared", "the same", "share", "kappa"]]
    for name in common:
        agreement = comparison.agreement(name)
        kappa = "" if agreement.kappa is None else f"{agreement.kappa:.3f}"
        rows.append([name, f"{agreement.pairs:,}", f"{agreement.equal:,}", _percent(agreement.share), kappa])
    for line in table(rows, right=(1, 2, 3, 4), width=width):
        say(line)
    _print_right(comparison)
    say("")
    for line in table(_figures(comparison), right=(1, 2), width=width):
        say(line)
    _print_differing(a, b, comparison, common, width)


def _print_task(a: Output, b: Output) -> None:
    one, other = (output.account.get("task") for output in (a, b))
    if not isinstance(one, dict) or not isinstance(other, dict):
        say("the tasks are not known: there is no account")
        return
    changed = changes(one, other)
    say("the same task" if not changed else "from A to B the task changed:")
    for line in changed:
        say(f"  {line}")


def _print_right(comparison: Comparison) -> None:
    from transforms.comparison import mcnemar

    right_a, right_b = comparison.right_or_wrong()
    if not (right_a >= 0).any() and not (right_b >= 0).any():
        return
    say("")
    for name, right in (("A", right_a), ("B", right_b)):
        judged = int((right >= 0).sum())
        count = int((right == 1).sum())
        say(f"{name} is right in {count:,} of {judged:,} ({_percent(count / judged if judged else None)})")
    only_a = int(((right_a == 1) & (right_b == 0)).sum())
    only_b = int(((right_a == 0) & (right_b == 1)).sum())
    chance = f"McNemar's exact test: p = {mcnemar(only_a, only_b):.3g}"
    say(f"A right and B wrong {only_a:,} | A wrong and B right {only_b:,} | {chance}")


def _figures(comparison: Comparison) -> list[list[str]]:
    import numpy as np

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


def _print_differing(a: Output, b: Output, comparison: Comparison, common: Sequence[str], width: int | None) -> None:
    from pipelines.table import table
    from transforms.llm.text import excerpt

    rows_a, rows_b = comparison.differing(common)
    if not len(rows_a):
        say("\nno row differs")
        return
    more = f", the first {SHOWN_ROWS}" if len(rows_a) > SHOWN_ROWS else ""
    say(f"\n{len(rows_a):,} rows differ{more}:" if len(rows_a) > 1 else "\n1 row differs:")
    found = list(_rows(a, b, rows_a[:SHOWN_ROWS], rows_b[:SHOWN_ROWS], common))
    heads = [name for name in found[0] if name == "id" or name not in a.carried]
    if all(row.get("expected") is None for row in found):
        heads = [name for name in heads if name != "expected"]
    texts = [name for name in found[0] if name in a.carried]
    longest = 40 if width else 2000
    cells = [[excerpt(_shown(row[name]), longest) for name in [*heads, *texts]] for row in found]
    for line in table([[*heads, *texts], *cells], width=width):
        say(line)


def _shown(value: str | None) -> str:
    return "null" if value is None else value


def _rows(a: Output, b: Output, rows_a: Any, rows_b: Any, common: Sequence[str]) -> Iterator[dict[str, str | None]]:
    """The rows at those places with both sides' answers, all as text: see `_heads`."""
    from transforms.agreement import expected_text
    from transforms.comparison import take, take_in_any_order
    from transforms.rows import EXPECTED

    carried, columns = _carried(a, common), list(dict.fromkeys(["id", EXPECTED, *common]))
    of_a = take(a.shards, [*columns, *carried], rows_a)
    of_b = take_in_any_order(b.shards, columns, rows_b)
    for one, other in zip(of_a, of_b, strict=True):
        row = {"id": one["id"]}
        for name in common:
            row[f"a_{name}"], row[f"b_{name}"] = expected_text(one[name]), expected_text(other[name])
        row[EXPECTED] = one[EXPECTED] if one[EXPECTED] is not None else other[EXPECTED]
        yield {**row, **{name: expected_text(one[name]) for name in carried}}


def _carried(a: Output, common: Sequence[str]) -> list[str]:
    taken = {f"{side}_{name}" for side in "ab" for name in common}
    return [name for name in a.carried if name not in taken]


def _heads(a: Output, common: Sequence[str]) -> list[str]:
    both = [f"{side}_{name}" for name in common for side in "ab"]
    return ["id", *both, "expected", *_carried(a, common)]


def _write(path: str, a: Output, b: Output, comparison: Comparison, common: Sequence[str]) -> None:
    from transforms.text_table import write_rows

    rows_a, rows_b = comparison.differing(common)
    written = write_rows(path, _heads(a, common), _rows(a, b, rows_a, rows_b, common))
    say(f"{path}: {written:,} rows")


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _parser() -> argparse.ArgumentParser:
    parser = outputs.Parser(
        prog="python -m pipelines.compare",
        description="The results of two output directories side by side: where they agree, which is right, what they "
        "cost.",
        epilog=_EPILOG,
    )
    parser.add_argument("a", metavar="OUT_A", help="an output directory")
    parser.add_argument("b", metavar="OUT_B", help="another one")
    parser.add_argument(
        "--write", metavar="FILE", help="write all rows that differ: .jsonl, .csv or .parquet, by the name's end"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
