"""The commands that only read what runs have left: their command line, their errors, and the output that they open.

They end with 0, or with 2 and one line that says what is wrong with the command or with a file; they never change
an output directory, so they can be used while a run is on.
"""

from __future__ import annotations

import argparse
import logging
import os
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


def open_output(path: str) -> Any:
    """The Layout of an output directory. Raises UsageError where there is none."""
    from transforms import files  # late: it imports apache_beam, which takes longer than --help may
    from transforms.layout import Layout

    if not files.is_local(path):
        layout = Layout(path.rstrip("/"))
    elif os.path.isdir(path):
        layout = Layout(os.path.abspath(path))
    else:
        raise UsageError(f"{path}: no such directory")
    try:
        there = files.subfolders(layout.root)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {masked(error.strerror or str(error))}") from None
    if not any(files.name(folder) in there for folder in (layout.results, layout.failures, layout.journals)):
        raise UsageError(f"{path}: no output of a run, it has neither results nor failures")
    return layout


def last_account(layout: Any) -> dict[str, Any]:
    """The account of the last run that is published; empty where there is none. Raises UsageError where it cannot be
    read."""
    from transforms import files

    paths = layout.accounts()
    if not paths:
        return {}
    try:
        account = files.read_json(paths[-1])
    except (OSError, ValueError) as error:
        raise UsageError(f"{paths[-1]}: cannot be read: {error}") from None
    return account if isinstance(account, dict) else {}


def say_unpublished(layout: Any, path: str) -> None:
    """Tells where there is more than what is published."""
    from transforms.recover import interrupted_runs

    runs = interrupted_runs(layout)
    if runs:
        say(
            f"{path}: run {', '.join(runs)} is under way, or was cut short and is published by the next one: "
            "what it has is not in here yet",
            error=True,
        )


def check_new(path: str, layouts: Sequence[Any], flag: str) -> None:
    """Raises UsageError where a file to be written is there already, would stand among what runs have left, or is
    not on this machine."""
    if "://" in path:
        raise UsageError(f"{flag}: {path} is no local path")
    full = os.path.realpath(path)
    for layout in layouts:
        folders = (layout.results, layout.failures, layout.journals, layout.stages, os.path.join(layout.root, "runs"))
        if any(full.startswith(os.path.realpath(folder) + os.sep) for folder in folders):
            raise UsageError(f"{flag}: {path} would stand among the files of a run; choose a place outside of them")
    if os.path.exists(path):
        raise UsageError(f"{flag}: {path} exists already; choose another name, or remove it")
    if not os.path.isdir(os.path.dirname(full)):
        raise UsageError(f"{flag}: {path}: there is no directory {os.path.dirname(full)}")
