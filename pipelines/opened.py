"""The output of runs as a command that only reads finds it. Imports apache_beam: late, for --help."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from pipelines.terminal import say
from pipelines.usage import UsageError
from transforms import files
from transforms.layout import Layout
from transforms.published import Published
from transforms.recover import interrupted_runs, read_header


class Output(NamedTuple):
    """One output directory: `path` as it was given, `account` that of the last run whose rows are published, or the
    header of the journal of a first run, or empty, and the rows that are published."""

    path: str
    layout: Layout
    account: dict[str, Any]
    published: Published


def open_output(path: str) -> Output:
    """Opens an output directory. Raises UsageError where there is none, or its last account cannot be read."""
    layout = layout_of(path)
    folders = (layout.results, layout.failures, layout.journals)
    if not layout.accounts() and not any(files.subfolders(f) or files.listing(f) or _is_there(f) for f in folders):
        raise nothing_in(path)
    account = _last_account(layout)
    try:
        return Output(path, layout, account, Published.of(layout, account))
    except ValueError as error:
        raise UsageError(f"{path}: the configuration in its last account cannot be read: {error}") from None


def layout_of(path: str) -> Layout:
    """The layout of the output directory that a command line names."""
    return Layout(os.path.abspath(path) if files.is_local(path) else path.rstrip("/"))


def nothing_in(path: str) -> UsageError:
    """What is raised for a directory that no run has written into."""
    if files.is_local(path) and not os.path.isdir(path):
        return UsageError(f"{path} holds no output of a run: there is no such directory")
    return UsageError(f"{path} holds no output of a run: it has no runs/, results/, failures/ or journal/")


def say_unpublished(output: Output) -> None:
    """Tells where there is more than what is published."""
    runs = interrupted_runs(output.layout)
    if runs:
        say(
            f"{output.path}: run {', '.join(runs)} is under way, or was cut short and is published by the next one: "
            "not all that it has is in here yet",
            error=True,
        )


def check_new(path: str, outputs: Sequence[Output], flag: str) -> None:
    """Raises UsageError where a file to be written is there already, or would stand among what runs have left, or is
    not on this machine."""
    if not files.is_local(path):
        raise UsageError(f"{flag}: {path} is no local path")
    full = os.path.realpath(path)
    for layout in (output.layout for output in outputs):
        folders = (layout.results, layout.failures, layout.journals, layout.stages, files.join(layout.root, "runs"))
        if any(full.startswith(os.path.realpath(folder) + os.sep) for folder in folders):
            raise UsageError(f"{flag}: {path} would stand among the files of a run; choose a place outside of them")
    if os.path.exists(path):
        raise UsageError(f"{flag}: {path} exists already; choose another name, or remove it")
    if not os.path.isdir(os.path.dirname(full)):
        raise UsageError(f"{flag}: {path}: there is no directory {os.path.dirname(full)}")


def _is_there(folder: str) -> bool:
    return files.is_local(folder) and os.path.isdir(folder)


def _last_account(layout: Layout) -> dict[str, Any]:
    accounts = layout.accounts()
    if accounts:
        try:
            account = files.read_json(accounts[-1])
        except (OSError, ValueError) as error:
            raise UsageError(f"{accounts[-1]}: cannot be read: {error}") from None
        return account if isinstance(account, dict) else {}
    for run_id in reversed(interrupted_runs(layout)):
        try:
            return read_header(layout, run_id)
        except (OSError, ValueError):  # cut short before it had begun, or beginning just now
            continue
    return {}
