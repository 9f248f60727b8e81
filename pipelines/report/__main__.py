"""`python -m pipelines.report OUT`: a page on what a run left behind."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Sequence
from pathlib import Path

from pipelines import outputs
from pipelines.terminal import say

_EPILOG = """\
Each run writes the report into its output directory when it ends; this command writes it anew, at any time and
without a model. The page is one file that loads nothing: it can be mailed, printed and kept.

exit codes: 0 written, 2 wrong usage, or nothing there to report on
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    return outputs.run(_report, argv)


def _report(argv: Sequence[str]) -> None:
    given = _parser().parse_args(argv)
    from pipelines.opened import open_output  # late: Beam takes longer than --help may
    from pipelines.report.write import write_report
    from transforms import files

    path = given.write or files.join(given.output, "report.html")
    write_report(open_output(given.output).layout, path)
    say(path)
    if given.open:
        webbrowser.open(Path(path).resolve().as_uri() if files.is_local(path) else path)


def _parser() -> argparse.ArgumentParser:
    parser = outputs.Parser(
        prog="python -m pipelines.report",
        description="A page with all figures of an output directory: rows, costs, latencies, labels, failures.",
        epilog=_EPILOG,
    )
    parser.add_argument("output", metavar="OUT", help="the output directory of the runs")
    parser.add_argument("--output", dest="write", metavar="FILE", help="where the page goes (default: OUT/report.html)")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
