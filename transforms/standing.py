"""What an output directory holds, for whoever only looks: as the next run will find it once it has cleared up.

Nothing is changed. A commit that was cut short counts as carried out, and a journal that was left behind counts as
it will be published.
"""

from __future__ import annotations

from typing import NamedTuple

from transforms import commit, files
from transforms.account import spent_usd
from transforms.budget import journal_cost_usd
from transforms.journal import journal_files
from transforms.layout import Layout
from transforms.published import Published
from transforms.recover import interrupted_runs
from transforms.table import TableSpec


class Standing(NamedTuple):
    """Results and failures, files of journals whose runs are not published, and the US dollars that all runs have cost,
    as far as it is known."""

    published: Published
    journals: list[str]
    spent_usd: float


def standing(layout: Layout, table: TableSpec | None = None) -> Standing:
    """Looks; `table` is the one that takes the place of files, if any. Raises OSError or ValueError for a file that
    cannot be read, or goes meanwhile."""
    # Where each file is now, by where it belongs.
    found = {path: path for folder in (layout.results, layout.failures) for path in layout.shards(folder)}
    spent, settled = spent_usd(layout), set()
    for run_id in files.subfolders(layout.stages):
        planned = commit.planned(layout, run_id)
        if planned is None:
            continue
        settled.add(run_id)
        for path in planned["removes"]:
            found.pop(path, None)
        for source, target in planned["moves"]:
            if files.exists(source):
                found.pop(source, None)
                found[target] = source
        if planned["account"] is not None and not files.exists(layout.account(run_id)):
            spent += planned["account"].get("cost_usd") or 0.0
    journals = []
    for run_id in interrupted_runs(layout):
        if run_id not in settled and not files.exists(layout.account(run_id)):
            journals += [info.path for info in journal_files(layout.journal(run_id))]
            spent += journal_cost_usd(layout.journal(run_id))
    published = Published(_in(found, layout.results), _in(found, layout.failures), table)
    return Standing(published, journals, spent)


def _in(found: dict[str, str], folder: str) -> list[str]:
    return [now for path, now in sorted(found.items()) if files.parent(path) == folder]
