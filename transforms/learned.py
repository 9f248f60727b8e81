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
from transforms.records import Row
from transforms.results import result_batches
from transforms.resume import read_jsonl
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
    values = islice(_results(standing.results, "task_hash", task_hash), _MOST_READ)
    failures = islice(_failures(standing.failures, "task_hash", task_hash), _MOST_READ)
    unpublished = islice(_journals(standing.journals, task_hash), _MOST_READ)
    # Answers come first, so that they stand where an id has an older failure too.
    rows = heapq.nsmallest(_MOST, chain(values, failures, unpublished), key=lambda item: item.digest)
    return [next(same) for _digest, same in groupby(rows, key=lambda item: item.digest)]


def of_run(results: list[str], failures: list[str], run_id: str) -> Iterator[Learned]:
    """All outcomes of one run's calls."""
    yield from _results(results, "run_id", run_id)
    yield from _failures(failures, "run_id", run_id)


def observation(row: Row, *, ok: bool) -> Observation:
    """What a result or failure row says. No tokens are known of a call without an answer, and none are billed as far
    as anybody can tell."""
    prompt, completion = row["prompt_tokens"], row["completion_tokens"]
    if not ok and prompt is None and completion is None and row["output_text"] is None:
        prompt = completion = 0
    return Observation(ok, row["attempts"], prompt, completion, row.get("cached_tokens"), row.get("latency_ms"))


def _results(paths: list[str], mark: str, value: str) -> Iterator[Learned]:
    for path in reversed(paths):
        for batch in result_batches(path, [*_COLUMNS, *_MARKS]):
            for row in batch.to_pylist():
                if row[mark] == value:
                    yield Learned(digest(row["id"]), observation(row, ok=True))


def _failures(paths: list[str], mark: str, value: str) -> Iterator[Learned]:
    for path in reversed(paths):
        for row in read_jsonl(path):
            if row[mark] == value and _was_called(row):
                yield Learned(digest(row["id"]), observation(row, ok=False))


def _journals(paths: list[str], task_hash: str) -> Iterator[Learned]:
    for path in reversed(paths):
        for entry in journal.read(path):
            if entry is not None and entry.row["task_hash"] == task_hash:
                yield Learned(entry.digest, observation(entry.row, ok=entry.outcome == OK))


def _was_called(row: dict[str, Any]) -> bool:
    return row["id"] is not None and row["reason"] not in UNCALLED
