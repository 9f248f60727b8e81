"""What earlier calls for a task took, out of the rows that they left: what an estimate learns from."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain, groupby, islice
from typing import Any, NamedTuple

from transforms import journal
from transforms.digests import digest
from transforms.journal import OK
from transforms.llm.projection import Observation
from transforms.published import Published
from transforms.records import Row
from transforms.rows import UNCALLED
from transforms.standing import Standing

_MOST = 4096  # rows that are learned from: more make no estimate better
_MOST_READ = 200_000  # rows of each kind that are looked at, the newest first
_COLUMNS = ("id", "attempts", "prompt_tokens", "completion_tokens", "cached_tokens", "latency_ms")
_MARKS = ("run_id", "task_hash")


class Learned(NamedTuple):
    """One row's outcome, with the digest of its id."""

    digest: bytes
    observation: Observation


def learned(standing: Standing, task_hash: str) -> list[Learned]:
    """What is known of this very task, each row once, sorted by digest: of many some thousands, spread evenly."""
    of_task = ("task_hash", task_hash)
    values = islice(_results(standing.published, *of_task), _MOST_READ)
    failures = islice(_failures(standing.published, *of_task), _MOST_READ)
    unpublished = islice(_journals(standing.journals, task_hash), _MOST_READ)
    # Answers come first, so that they stand where an id has an older failure too.
    rows = heapq.nsmallest(_MOST, chain(values, failures, unpublished), key=lambda item: item.digest)
    return [next(same) for _digest, same in groupby(rows, key=lambda item: item.digest)]


def of_run(published: Published, run_id: str) -> Iterator[Learned]:
    """All outcomes of one run's calls."""
    its = published.of_run(run_id)
    yield from _results(its, "run_id", run_id)
    yield from _failures(its, "run_id", run_id)


def observation(row: Row, *, ok: bool) -> Observation:
    """What a result or failure row says. No tokens are known of a call without an answer, and none are billed as far
    as anybody can tell."""
    prompt, completion = row["prompt_tokens"], row["completion_tokens"]
    if not ok and prompt is None and completion is None and row["output_text"] is None:
        prompt = completion = 0
    return Observation(ok, row["attempts"], prompt, completion, row.get("cached_tokens"), row.get("latency_ms"))


def _results(published: Published, mark: str, value: str) -> Iterator[Learned]:
    for batch in published.results([*_COLUMNS, *_MARKS], newest_first=True):
        for row in batch.to_pylist():
            if row[mark] == value:
                yield Learned(digest(row["id"]), observation(row, ok=True))


def _failures(published: Published, mark: str, value: str) -> Iterator[Learned]:
    for row in published.failures(newest_first=True):
        if row[mark] == value and _was_called(row):
            yield Learned(digest(row["id"]), observation(row, ok=False))


def _journals(paths: list[str], task_hash: str) -> Iterator[Learned]:
    for path in reversed(paths):
        for entry in journal.read(path):
            if entry is not None and entry.row["task_hash"] == task_hash:
                yield Learned(entry.digest, observation(entry.row, ok=entry.outcome == OK))


def _was_called(row: dict[str, Any]) -> bool:
    return row["id"] is not None and row["reason"] not in UNCALLED
