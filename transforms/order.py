"""Rows in the order of the input, on request: sorted runs on disk, merged when they are published.

The classic external merge sort (Knuth, The Art of Computer Programming, volume 3, section 5.4): up to RUN_ROWS rows
are sorted in memory and written as a run, and up to FAN_IN runs are merged at a time. A row knows its place by a
number under the key PLACE, which is gone from what is published.
"""

from __future__ import annotations

import heapq
import json
import uuid
from collections.abc import Iterable, Iterator
from operator import itemgetter

from transforms import files
from transforms.records import PLACE, Row
from transforms.shards import Roll, ShardFormat, Staged

RUN_ROWS = 20_000  # held in memory at once
FAN_IN = 128  # files open at once
_ENDING = ".run"

_place = itemgetter(PLACE)


class SortedRuns:
    """Writes rows into sorted runs, and knows those that are finished. Has the face of a shards.Roll."""

    def __init__(self, folder: str, run_rows: int = RUN_ROWS) -> None:
        self._folder = folder
        self._run_rows = run_rows
        self._rows: list[Row] = []
        self.finished: list[Staged] = []

    def write(self, row: Row) -> None:
        """Adds a row that has a PLACE."""
        self._rows.append(row)
        if len(self._rows) >= self._run_rows:
            self.close()

    def discard(self) -> None:
        """Lets go of the rows that are in no run yet."""
        self._rows = []

    def close(self) -> None:
        """Finishes the run that is open, if any."""
        if self._rows:
            self._rows.sort(key=_place)
            self.finished.append(_write_run(self._rows, self._folder))
            self._rows = []


def new_roll(shards: ShardFormat, folder: str) -> Roll | SortedRuns:
    """What rows are written to: shards, or runs to be merged into shards."""
    return SortedRuns(folder) if shards.ordered else Roll(shards, folder)


def merge_runs(runs: Iterable[Staged], shards: ShardFormat, folder: str) -> list[Staged]:
    """Shards with the rows of all runs, by their places; the names of the shards sort likewise. Runs stay: they go
    with the folder. Holds a row for each of up to FAN_IN runs."""
    left = sorted(runs)
    while len(left) > FAN_IN:
        groups = [left[at : at + FAN_IN] for at in range(0, len(left), FAN_IN)]
        left = [_write_run(_merged(group), folder) for group in groups]
    roll = Roll(shards, folder)
    for row in _merged(left):
        del row[PLACE]
        roll.write(row)
    roll.close()
    named = []
    for number, shard in enumerate(roll.finished):  # written one after another under names that do not sort
        path = files.join(folder, f"{number:06d}-{files.name(shard.path)}")
        files.move(shard.path, path)
        named.append(shard._replace(path=path))
    return named


def _write_run(rows: Iterable[Row], folder: str) -> Staged:
    path = files.join(folder, f"{uuid.uuid4().hex}{_ENDING}")
    count = 0
    with files.create(path) as stream:
        for row in rows:
            stream.write(json.dumps(row, separators=(",", ":"), allow_nan=False).encode() + b"\n")
            count += 1
    return Staged(path, count)


def _merged(runs: Iterable[Staged]) -> Iterator[Row]:
    return heapq.merge(*(_read_run(run.path) for run in runs), key=_place)


def _read_run(path: str) -> Iterator[Row]:
    with files.open_read(path) as stream:
        for line in files.lines(stream):
            yield json.loads(line)
