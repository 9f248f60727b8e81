"""`python -m pipelines.report OUT`: a page on what a run left behind."""

from __future__ import annotations

import argparse
import logging
import sys
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from pipelines.terminal import say, survive_any_terminal
from pipelines.usage import UsageError

USAGE, INTERRUPTED = 2, 130

_EPILOG = """\
Each run writes the report into its output directory when it ends; this command writes it anew, at any time and
without a model. The page is one file that loads nothing: it can be mailed, printed and kept.

exit codes: 0 written, 2 wrong usage, or nothing there to report on
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))


def main(argv: Sequence[str] | None = None) -> int:
    """Writes the report and prints where it is. Returns the exit code."""
    survive_any_terminal()
    try:
        own = _parser().parse_args(argv)
        from transforms import files  # late: Beam takes longer than --help should
        from transforms.layout import Layout

        path = own.output or files.join(own.directory, "report.html")
        from pipelines.report.write import write_report

        write_report(Layout(own.directory), path)
        say(path)
        if own.open:
            webbrowser.open(Path(path).resolve().as_uri() if files.is_local(path) else path)
    except UsageError as error:
        say(f"paidonce: {error}", error=True)
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m pipelines.report",
        description="Write a page with all figures of an output directory: rows, costs, latencies, labels, failures.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("directory", metavar="OUT", help="the output directory of one or more runs")
    parser.add_argument("--output", metavar="FILE", help="where the page goes (default: OUT/report.html)")
    parser.add_argument("--open", action="store_true", help="open it in the browser")
    return parser


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # what Beam says when it is imported
    sys.exit(main())
