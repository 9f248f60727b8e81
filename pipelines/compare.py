"""`python -m pipelines.compare OUT_A OUT_B`: two outputs side by side, row by row."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from pipelines import outputs
from pipelines.terminal import say
from pipelines.usage import UsageError

_FORMATS = (".jsonl", ".csv", ".parquet")

_EPILOG = """\
examples:
  %(prog)s out/mini out/large
      does the large model answer otherwise, is it right more often, and what does it cost more?
  %(prog)s out/old out/new --write changed.csv
      what a new prompt changes: all rows that differ, for a spreadsheet; .jsonl and .parquet are written as well

Rows are joined by id. Columns are those of both answers' schemas; without schemas the texts of the answers. Values
are compared as text, without the white space around it. Which are right is told by the results' column expected,
which task.expected fills; an answer that is null is wrong. Costs, tokens and latency are those of the rows that both
have.

exit codes: 0 compared, whether they differ or not; 2 wrong usage, no results, no id or no column in common, or a
file or database that cannot be read
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    return outputs.run(_compare, argv)


def _compare(argv: Sequence[str]) -> None:
    given = _parser().parse_args(argv)
    if given.write is not None and not given.write.endswith(_FORMATS):
        raise UsageError(f"--write: {given.write} must end with {', '.join(_FORMATS)}, which says the format")
    from pipelines.compared import open_both  # late: Beam takes longer than --help may
    from pipelines.opened import check_new, say_unpublished

    pair = open_both(given.a, given.b)
    if given.write is not None:
        check_new(given.write, [pair.a.output, pair.b.output], "--write")
    for side in (pair.a, pair.b):
        say_unpublished(side.output)

    from pipelines.differing import write_differing
    from pipelines.side_by_side import print_comparison

    try:
        comparison = pair.load()
        print_comparison(pair, comparison)
        if given.write is not None:
            say(f"{given.write}: {write_differing(given.write, pair, comparison):,} rows")
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None


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
