"""Publishing: complete or not at all, whenever it is cut short.

All files are first finished under staging/. Then one small file, the commit, says which of them move where, which
old ones go, and what the account is. From the moment that it is there the run is published: whoever finds it
carries it out to the end, as often as it takes. Without it the journal still has every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from transforms import digests, files
from transforms.digests import DigestSet, digest
from transforms.layout import Layout
from transforms.records import Row
from transforms.resume import read_jsonl, result_ids
from transforms.rows import UNCALLED
from transforms.write import Roll, ShardFormat, Staged, join_files, pack

FAILURES = ShardFormat("jsonl", rows_per_shard=100_000)


def publish(
    layout: Layout,
    run_id: str,
    results: list[Staged],
    failures: list[Staged],
    prior_failures: list[str],
    account: dict[str, Any],
) -> None:
    """Publishes a run. `prior_failures` are the failure files that this run's take the place of: rows of theirs
    that have no new outcome are carried over. Doing it twice is doing it once."""
    if files.exists(layout.account(run_id)) and not files.exists(_commit(layout, run_id)):
        return
    if not files.exists(_commit(layout, run_id)):
        folder = layout.staging(run_id)
        roll = Roll(FAILURES, folder)
        for row in carried(prior_failures, _outcomes(results, failures)):
            roll.write(row)
        roll.close()
        account["carried_failures"] = sum(item.rows for item in roll.finished)
        failures = [
            join_files(group, FAILURES, folder) for group in pack([*failures, *roll.finished], FAILURES.rows_per_shard)
        ]
        moves = [
            *_named(results, layout.results, run_id),
            *_named(failures, layout.failures, run_id),
        ]
        plan_commit(layout, run_id, moves, prior_failures, account)
    carry_out(layout, run_id)


def plan_commit(
    layout: Layout, run_id: str, moves: list[tuple[str, str]], removes: list[str], account: dict[str, Any] | None
) -> None:
    """Writes down what `carry_out` is to do: the point of no return."""
    files.write_json(_commit(layout, run_id), {"removes": removes, "moves": moves, "account": account})


def carry_out(layout: Layout, run_id: str) -> None:
    """Does what a commit says, or the rest of it. Old files go first, so that no reader finds an id twice."""
    commit = files.read_json(_commit(layout, run_id))
    files.remove(commit["removes"])
    for source, target in commit["moves"]:
        if files.exists(source):
            files.move(source, target)
    if commit["account"] is not None:
        files.write_json(layout.account(run_id), commit["account"])
        files.remove_folder(layout.journal(run_id))
    files.remove([_commit(layout, run_id)])
    files.remove_folder(layout.staging(run_id))


def is_planned(layout: Layout, run_id: str) -> bool:
    """Whether a run's commit was written down and not carried out to the end."""
    return files.exists(_commit(layout, run_id))


def planned(layout: Layout, run_id: str) -> dict[str, Any] | None:
    """A commit that was written down and not carried out to the end: see plan_commit. None where there is none."""
    path = _commit(layout, run_id)
    return files.read_json(path) if files.exists(path) else None


def carried(prior_failures: Iterable[str], outcomes: Iterable[str]) -> Iterator[Row]:
    """Rows of earlier failure files whose ids are not among `outcomes`, the ids that have a row in this run.
    Failures found before a call are left out: each run finds them anew. Holds 17 bytes for each earlier failure."""
    prior_failures = list(prior_failures)
    blobs = digests.pack(digest(row["id"]) for path in prior_failures for row in read_jsonl(path) if _stays(row))
    earlier = digests.merge(blobs)
    if not earlier:
        return
    ids = DigestSet(earlier)
    settled = np.zeros(len(ids), dtype=bool)
    for identifier in outcomes:
        at = ids.find(digest(identifier))
        if at is not None:
            settled[at] = True
    for path in prior_failures:
        for row in read_jsonl(path):
            at = ids.find(digest(row["id"])) if _stays(row) else None
            if at is not None and not settled[at]:
                settled[at] = True
                yield row


def _outcomes(results: Iterable[Staged], failures: Iterable[Staged]) -> Iterator[str]:
    for item in results:
        yield from result_ids(item.path)
    for item in failures:
        for row in read_jsonl(item.path):
            # A later record with the same id says nothing about the first one, whose failure the earlier row is.
            if row["id"] is not None and row["reason"] != "duplicate_id":
                yield row["id"]


def _stays(row: Row) -> bool:
    return row["id"] is not None and row["reason"] not in UNCALLED


def _named(staged: list[Staged], folder: str, run_id: str) -> list[tuple[str, str]]:
    ending = staged[0].path.rsplit(".", 1)[-1] if staged else ""
    return [
        (item.path, files.join(folder, f"{run_id}-{number:05d}-of-{len(staged):05d}.{ending}"))
        for number, item in enumerate(sorted(staged, key=lambda item: (-item.rows, item.path)))
    ]


def _commit(layout: Layout, run_id: str) -> str:
    return files.join(layout.staging(run_id), "commit.json")
