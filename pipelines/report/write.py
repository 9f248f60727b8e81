"""From an output directory to its report."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from pipelines.opened import nothing_in
from pipelines.report.page import Contents, render
from pipelines.usage import UsageError
from transforms import files
from transforms.history import Account, read_accounts
from transforms.layout import Layout
from transforms.llm.secrets import hide
from transforms.published import Published
from transforms.statistics import collect


def write_report(layout: Layout, path: str) -> None:
    """Writes the report on all runs into an output directory to `path`, whole or not at all. Nothing else in the
    directory changes. Raises UsageError where there is nothing to report on or it cannot be read or written."""
    try:
        contents = read_contents(layout)
    except (OSError, ValueError) as error:
        raise UsageError(f"{layout.root}: cannot be reported on: {error}") from None
    page = render(contents).encode("utf-8", "replace")  # half of a surrogate pair, as JSON can hold
    try:
        files.write(path, page)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror or error}") from None


def read_contents(layout: Layout) -> Contents:
    """All that the report on an output directory shows. Raises UsageError where nothing is there, OSError or
    ValueError where it cannot be read."""
    accounts = read_accounts(layout)
    unfinished = files.subfolders(layout.journals)
    if not accounts and not layout.shards(layout.results) and not layout.shards(layout.failures):
        if unfinished:
            raise UsageError(f"{layout.root} holds nothing yet: its first run is under way or was cut short")
        raise nothing_in(layout.root)
    last: Account = accounts[-1] if accounts else {}
    config = last.get("config") or {}
    for name in _key_variables(config.get("model") or {}):
        hide(os.environ.get(name))
    runs = [account["run_id"] for account in accounts] or _run_ids(layout)
    return Contents(layout.root, accounts, unfinished, collect(Published.of(layout, last), config, runs))


def _key_variables(model: Account) -> Iterator[str]:
    places: Sequence[Any] = [model, *(model.get("endpoints") or [])]
    for place in places:
        if place.get("api_key_env"):
            yield place["api_key_env"]


def _run_ids(layout: Layout) -> list[str]:
    """The runs that the names of files speak of, where their accounts are gone."""
    shards = [*layout.shards(layout.results), *layout.shards(layout.failures)]
    return sorted({files.name(path).rsplit("-", 3)[0] for path in shards})
