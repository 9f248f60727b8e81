"""The frame of the commands that only read what runs have left: their command line and their errors.

They end with 0, or with 2 and one line that says what is wrong with the command or with a file; they never change
an output directory, so they can be used while a run is on.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from pipelines.terminal import say, survive_any_terminal
from pipelines.usage import UsageError
from transforms.llm.secrets import masked

_USAGE, _INTERRUPTED = 2, 130


class Parser(argparse.ArgumentParser):
    """argparse in the manner of this program: no abbreviations, mistakes raised as UsageError."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)

    def error(self, message: str) -> NoReturn:
        """Raises argparse's message."""
        raise UsageError(f"{message.removeprefix('argument ')} (--help shows how it is used)")


def run(command: Callable[[Sequence[str]], None], argv: Sequence[str] | None = None) -> int:
    """Does a command with its arguments. Returns the exit code."""
    survive_any_terminal()
    try:
        with _quiet_libraries():
            command(sys.argv[1:] if argv is None else argv)
    except UsageError as error:
        say(f"paidonce: {error}", error=True)
        return _USAGE
    except OSError as error:  # from a store, or a folder that goes meanwhile
        say(f"paidonce: {masked(error.strerror or str(error))}", error=True)
        return _USAGE
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


@contextmanager
def _quiet_libraries() -> Iterator[None]:
    """Keeps what Beam says when it is imported off the terminal."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
