"""Running again is the resume: ids that the output already holds are left out.

The output itself is the progress. Only its id column is read, and ids travel as digests (see digests.py).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import apache_beam as beam
import pyarrow.parquet as pq
from apache_beam.transforms.window import GlobalWindows

from transforms import files, journal
from transforms.csv_file import csv_ids
from transforms.digests import digest
from transforms.done_digests import PARTITIONS, Done, DoneDigests, DoneKey, DonePacker
from transforms.metrics import counter
from transforms.records import Record
from transforms.rows import UNCALLED
from transforms.scratch import Part, Scratch
from transforms.table_ids import PriorRows, prior_rows
from transforms.tally import TALLY, bundle_tally

Retry = Literal["retryable", "all", "none"]

RECOVERED = "recovered"
_BATCH = 65_536


class Prior(NamedTuple):
    """A file of earlier output. Of a failures file, `runs` names those whose rows count; None: all. A journal file
    holds both answers and failures."""

    path: str
    is_failures: bool
    runs: frozenset[str] | None = None
    is_journal: bool = False


def result_ids(path: str) -> Iterator[str]:
    """The ids in a results file, Parquet, CSV or JSONL by its ending."""
    if path.endswith(".parquet"):
        with files.open_read(path) as stream:
            for batch in pq.ParquetFile(stream).iter_batches(_BATCH, columns=["id"]):
                yield from batch.column(0).to_pylist()
        return
    if path.endswith(".csv"):
        yield from csv_ids(path)
        return
    for row in read_jsonl(path):
        yield row["id"]


def read_jsonl(path: str) -> Iterator[dict[str, Any]]:
    """The rows of a JSONL file that a run wrote. Raises ValueError, naming the file, for a line that is none."""
    with files.open_read(path) as stream:
        for number, line in enumerate(files.lines(stream), 1):
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from None
            if not isinstance(row, dict):
                raise ValueError(f"{path}, line {number}: not a JSON object")
            yield row


def done_failure(row: dict[str, Any], retry: Retry, reasons: Collection[str] = ()) -> bool:
    """Whether a failure of an earlier run counts as done. Those found before a call never do: they are found anew.
    Nor do those for one of `reasons`, whatever `retry` says."""
    if row["id"] is None or row["reason"] in UNCALLED or row["reason"] in reasons or retry == "all":
        return False
    return retry == "none" or not row["retryable"]


def done_ids(prior: Prior | PriorRows, retry: Retry, reasons: Collection[str] = ()) -> Iterator[str]:
    """The ids of an earlier output file, or of a range of a table, that are not to be asked again."""
    if isinstance(prior, PriorRows):
        return (row["id"] for row in prior_rows(prior) if not prior.is_failures or done_failure(row, retry, reasons))
    if prior.is_journal:
        entries = (entry for entry in journal.read(prior.path) if entry is not None)
        return (e.row["id"] for e in entries if e.outcome == journal.OK or done_failure(e.row, retry, reasons))
    if not prior.is_failures:
        return result_ids(prior.path)
    return (
        row["id"]
        for row in read_jsonl(prior.path)
        if done_failure(row, retry, reasons) and (prior.runs is None or row["run_id"] in prior.runs)
    )


@dataclass
class DoneIds(beam.PTransform):
    """(Prior or PriorRows, whether this launch published it) -> the Parts, written to `scratch`, that hold the digests
    of done ids: see done_digests.Done. Those of what this launch published are under RECOVERED.

    Failures for one of `reasons` are not done, whatever `retry` says."""

    retry: Retry
    reasons: tuple[str, ...]
    scratch: Scratch

    def expand(self, pcoll: Any) -> Any:
        read = beam.ParDo(_ReadIds(self.retry, self.reasons, self.scratch)).with_output_types(Part)
        outputs = read.with_outputs(RECOVERED, main="done")
        return pcoll | "SpreadPrior" >> beam.Reshuffle() | "ReadIds" >> outputs


class _ReadIds(beam.DoFn):
    def __init__(self, retry: Retry, reasons: tuple[str, ...], scratch: Scratch) -> None:
        self._retry: Retry = retry
        self._reasons = reasons
        self._scratch = scratch

    def start_bundle(self) -> None:
        self._packers = {False: DonePacker(), True: DonePacker()}

    def process(self, found: tuple[Prior | PriorRows, bool]) -> Iterator[Any]:
        prior, recovered = found
        packer = self._packers[recovered]
        for identifier in done_ids(prior, self._retry, self._reasons):
            if packer.add(digest(identifier)):
                yield from (_tagged(part, recovered) for part in self._written(packer))

    def finish_bundle(self) -> Iterator[Any]:
        for recovered, packer in self._packers.items():
            yield from (_tagged(GlobalWindows.windowed_value(part), recovered) for part in self._written(packer))

    def _written(self, packer: DonePacker) -> list[Part]:
        part = self._scratch.write(packer.take(), PARTITIONS)
        return [] if part is None else [part]


def _tagged(part: Any, recovered: bool) -> Any:
    return beam.pvalue.TaggedOutput(RECOVERED, part) if recovered else part


@dataclass
class DropDone(beam.PTransform):
    """Record -> Record that is not done. The others are counted: as recovered where this launch published them,
    else as skipped."""

    done: Done
    recovered: Done

    def expand(self, pcoll: Any) -> Any:
        step = _DropDone(self.done.key, self.recovered.key)
        sides = self.done.side_input, self.recovered.side_input
        return pcoll | "DropDone" >> beam.ParDo(step, *sides).with_outputs(TALLY, main="records")


class _DropDone(beam.DoFn):
    def __init__(self, done: DoneKey, recovered: DoneKey) -> None:
        self._keys = done, recovered
        self._skipped_count = counter("skipped")

    def setup(self) -> None:
        self._held = [key.held() for key in self._keys]

    def teardown(self) -> None:
        del self._held

    def start_bundle(self) -> None:
        self._sets: list[DoneDigests] | None = None
        self._skipped = self._just_recovered = 0

    def process(self, record: Record, done: Any, recovered: Any) -> Iterator[Record]:
        if self._sets is None:  # side inputs are the same for all of a bundle
            self._sets = list(map(DoneDigests, self._held, (done, recovered)))
        value = digest(record.id)
        if value not in self._sets[0]:
            yield record
        elif value in self._sets[1]:
            self._just_recovered += 1
        else:
            self._skipped += 1

    def finish_bundle(self) -> Iterator[Any]:
        self._skipped_count.inc(self._skipped)  # at once: ten million times one takes seconds
        self._sets = None
        yield bundle_tally({"skipped": self._skipped, "recovered": self._just_recovered})
