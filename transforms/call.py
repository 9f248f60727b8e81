"""Record -> outcome: rate-limited, concurrent model calls in a DoFn, each answer on disk before anybody sees it.

A sliding window over the bundle: a record enters as soon as any thread of the process is free, no batch waits for
its slowest member, and `finish_bundle` waits for the last. A row's failure becomes a row; what stops the account
leaves rows undone; only a fault of our own machine (a full disk) raises.

An engine may repeat a bundle. What this run's journal already holds is then given again, not called again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindows

from transforms import files, workers
from transforms.ask import Asker, CallSpec, Job, Window
from transforms.digests import digest
from transforms.journal import DEAD_LETTER, HEADER_FILE, OK, Entry, SpanIndex
from transforms.records import Record
from transforms.span_journal import SpanJournal
from transforms.stop import POLL_SECONDS
from transforms.tally import TALLY, add, bundle_tally


@dataclass
class Call(beam.PTransform):
    """Record -> result row; failure rows under DEAD_LETTER, counts under TALLY.

    Raises OSError where the journal cannot be written: an answer that cannot be kept must not be paid for.
    """

    spec: CallSpec

    def expand(self, pcoll: Any) -> Any:
        return pcoll | "Call" >> beam.ParDo(CallModel(self.spec)).with_outputs(DEAD_LETTER, TALLY, main=OK)


class CallModel(beam.DoFn):
    """See Call. One instance works on one bundle at a time; the threads are the process's."""

    def __init__(self, spec: CallSpec) -> None:
        self._spec = spec
        self._replayed_count = Metrics.counter("paidonce", "replayed")
        self._counts = {OK: Metrics.counter("paidonce", "ok"), DEAD_LETTER: Metrics.counter("paidonce", "failed")}

    def setup(self) -> None:
        self._pool = workers.acquire(self._spec.stamp.run_id, self._start)
        self._index = SpanIndex(self._spec.journal)
        self._window = Window()

    def teardown(self) -> None:
        self._window.open = False
        workers.release(self._spec.stamp.run_id)

    def start_bundle(self) -> None:
        # A bundle that broke leaves calls under way: they end in the journal, and in a window that nobody reads.
        self._window.open = False
        self._window = Window()
        self._file: SpanJournal | None = None
        self._unprocessed = 0
        self._notes: dict[str, int] = {}
        # An engine can repeat a graph whose last step has published it: nothing is left to call then.
        self._over = not files.exists(files.join(self._spec.journal, HEADER_FILE))
        self._index.refresh()

    def process(self, record: Record) -> Iterator[Any]:
        if self._file is None or self._file.span != record.span:
            self._turn_to(record.span)
        value = digest(record.id)
        known = self._index.find(record.span, value)
        if known is not None:
            self._replayed_count.inc()
            yield self._emit(known)
        elif self._over or self._pool.asker.stop.is_set():
            self._unprocessed += 1
        else:
            self._submit(record, value)
        # Twice the threads: whichever thread gets free finds a record waiting, without a turn of this loop first.
        while self._window.out >= 2 * self._pool.count:
            yield from self._take(self._wait())
        while True:
            try:
                job = self._window.replies.get_nowait()
            except Empty:
                return
            yield from self._take(job)

    def finish_bundle(self) -> Iterator[Any]:
        while self._window.out:
            for row in self._take(self._wait()):
                if isinstance(row, beam.pvalue.TaggedOutput):
                    yield beam.pvalue.TaggedOutput(row.tag, GlobalWindows.windowed_value(row.value))
                else:
                    yield GlobalWindows.windowed_value(row)
        if self._file is not None:
            self._file.close()
        self._pool.asker.save()
        self._pool.asker.heartbeat.settle()  # what follows may publish the run and remove its journal
        yield bundle_tally({"unprocessed": self._unprocessed, **({"notes": self._notes} if self._notes else {})})

    def _start(self) -> CallPool:
        return CallPool(Asker(self._spec), self._spec.max_in_flight)

    def _turn_to(self, span: str) -> None:
        if self._file is not None and self._file.pending == 0:
            self._file.close()
        self._file = self._pool.asker.journal(span)
        if self._pool.asker.save(span):  # of a bundle that broke, which this one repeats
            self._index.refresh()
        self._index.load(span)

    def _submit(self, record: Record, value: bytes) -> None:
        assert self._file is not None
        self._window.out += 1
        self._file.pending += 1
        self._pool.submit(Job(record, value, self._file, self._window))

    def _wait(self) -> Job:
        while True:
            try:
                return self._window.replies.get(timeout=POLL_SECONDS)
            except Empty:  # a stop that another process asked for wakes the threads that wait for their turn
                self._pool.asker.stop.is_set()

    def _take(self, job: Job) -> Iterator[Any]:
        self._window.out -= 1
        job.file.pending -= 1
        if job.file.pending == 0 and job.file is not self._file:
            job.file.close()
        if isinstance(job.outcome, BaseException):
            raise job.outcome
        if job.outcome is None:
            self._unprocessed += 1
        else:
            self._counts[job.outcome.outcome].inc()
            yield self._emit(job.outcome)

    def _emit(self, entry: Entry) -> Any:
        add(self._notes, entry.notes)
        return entry.row if entry.outcome == OK else beam.pvalue.TaggedOutput(DEAD_LETTER, entry.row)


class CallPool(workers.Workers[Job]):
    """The threads that ask the model for one run in one process."""

    def __init__(self, asker: Asker, count: int) -> None:
        self.asker = asker
        super().__init__(count, asker.work, asker.close)

    def close(self) -> None:
        """Lets calls that are under way end, starts no other, then closes the clients."""
        self.asker.stop.event.set()
        super().close()
