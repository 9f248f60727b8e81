"""`python -m pipelines.watch OUT`: how the run into an output directory is going, from another terminal or machine."""

from __future__ import annotations

import argparse
import logging
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

from pipelines.terminal import say, survive_any_terminal
from pipelines.usage import UsageError
from transforms.llm.secrets import masked

_EPILOG = """\
It reads what the run leaves on the disk, so it works for any engine and from any machine that sees the directory.
Where no run is going it shows the account of the last one.

exit codes: 0 shown, 2 wrong usage or no output there, 130 interrupted
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message.removeprefix("argument "))


def main(argv: Sequence[str] | None = None) -> int:
    """Shows a run. Returns the exit code."""
    survive_any_terminal()
    try:
        options = _parser().parse_args(argv)
        logging.disable(logging.CRITICAL)
        warnings.simplefilter("ignore")
        # Late: it imports apache_beam.
        from pipelines.watching import watch

        watch(options.output, once=options.once, silent_seconds=options.silent)
    except UsageError as error:
        say(f"paidonce: {error}", error=True)
        return 2
    except OSError as error:
        say(f"paidonce: {options.output}: {masked(error.strerror or str(error))}", error=True)
        return 2
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m pipelines.watch",
        description="Show how the run into an output directory is going, until it ends.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
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
    sys.exit(main())
