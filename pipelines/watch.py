"""`python -m pipelines.watch OUT`: how the run into an output directory is going, from another terminal or machine."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

from pipelines import outputs

_EPILOG = """\
It reads what the run leaves on the disk, so it works for any engine and from any machine that sees the directory.
Where no run is going it shows the account of the last one.

exit codes: 0 shown, 2 wrong usage or no output there, 130 interrupted
"""


def main(argv: Sequence[str] | None = None) -> int:
    """The command. Returns the exit code."""
    return outputs.run(_watch, argv)


def _watch(argv: Sequence[str]) -> None:
    given = _parser().parse_args(argv)
    from pipelines.watching import watch  # late: Beam takes longer than --help may

    watch(given.output, once=given.once, silent_seconds=given.silent)


def _parser() -> argparse.ArgumentParser:
    parser = outputs.Parser(
        prog="python -m pipelines.watch",
        description="How the run into an output directory is going, until it ends.",
        epilog=_EPILOG,
    )
    parser.add_argument("output", metavar="OUT", help="the run's output directory: its --output, or output.path")
    parser.add_argument("--once", action="store_true", help="show it as it is now, as one line, and end")
    parser.add_argument(
        "--silent",
        metavar="SECONDS",
        type=_seconds,
        default=60.0,
        help="say that a run looks dead when there has been nothing new for so long (default: %(default)g)",
    )
    return parser


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", text) or float(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a number of seconds greater than 0, got {text!r}")
    return float(text)


if __name__ == "__main__":
    raise SystemExit(main())
