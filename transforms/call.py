"""Record -> outcome: rate-limited, concurrent model calls in a DoFn, each answer on disk before anybody sees it.

A sliding window over the bundle: a record enters as soon as any thread of the process is free, no batch waits for
its slowest member, and `finish_bundle` waits for the last. Several records may share a call (task.records_per_call),
and records whose requests are the same an answer (shared_answers.py). A row's failure becomes a row;
what stops the account leaves rows undone; only a fault of our own machine (a full disk) raises.

An engine may repeat a bundle, or run it twice at once. What this run's journal already holds is then given again, not
called again: a record is claimed in this process (claims.py) and among others (record_locks.py), then the journal is
looked at, then there is a call.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty
from typing import Any

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

from transforms import files, workers
from transforms.ask import Asker
from transforms.call_metrics import CallMetrics
from transforms.call_spec import CallSpec
from transforms.digests import digest
from transforms.job import Job, Window
from transforms.journal import DEAD_LETTER, HEADER_FILE, OK, Entry
from transforms.records import Record
from transforms.span_index import SpanIndex
from transforms.span_journal import SpanJournal
from transforms.stop import POLL_SECONDS
from transforms.tally import TALLY, add, bundle_tally

AGAIN_SECONDS = 0.1  # between two looks whether another process has answered what it was asking
MOST_WAITING = 1000  # records of a bundle that wait for the answers of others, and are held in memory meanwhile


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
        self._records_per_call = spec.task.records_per_call
        self._metrics = CallMetrics()

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
        self._group: dict[bytes | Job, list[Job]] = {}  # the next call: by request, who asks and who has the same
        self._again: list[Job] = []  # another process asks about these, or one of this process has given up
        self._next_look = 0.0  # at them, by the monotonic clock
        self._file: SpanJournal | None = None
        self._unprocessed = 0
        self._notes: dict[str, int] = {}
        # An engine can repeat a graph whose last step has published it: nothing is left to call then.
        self._over = not files.exists(files.join(self._spec.journal, HEADER_FILE))
        self._index.refresh()

    def process(self, record: Record) -> Iterator[Any]:
        file = self._journal(record.span)
        value = digest(record.id)
        known = file.known(value)
        if known is not None:
            self._metrics.replayed(known)
            yield self._emit(known)
        elif self._over or self._pool.asker.stop.is_set():
            self._unprocessed += 1
        else:
            self._add(Job(record, value, file, self._window))
        # Twice the threads: whichever thread gets free finds records waiting, without a turn of this loop first.
        while self._window.out - self._window.waiting >= 2 * self._pool.count * self._records_per_call:
            yield from self._take(self._wait())
        if self._window.waiting >= MOST_WAITING:
            self._submit()  # what they wait for may be among these
            while self._window.waiting >= MOST_WAITING:
                yield from self._take(self._wait())
        while True:
            try:
                job = self._window.replies.get_nowait()
            except Empty:
                return
            yield from self._take(job)

    def finish_bundle(self) -> Iterator[Any]:
        self._submit()
        while self._window.out:
            for row in self._take(self._wait()):
                if isinstance(row, beam.pvalue.TaggedOutput):
                    yield beam.pvalue.TaggedOutput(row.tag, GlobalWindows.windowed_value(row.value))
                else:
                    yield GlobalWindows.windowed_value(row)
        if self._file is not None:
            self._file.close()
        self._metrics.throttled(self._pool.asker.throttled)
        self._pool.asker.save()
        self._pool.asker.heartbeat.settle()  # what follows may publish the run and remove its journal
        yield bundle_tally({"unprocessed": self._unprocessed, **({"notes": self._notes} if self._notes else {})})

    def _start(self) -> CallPool:
        try:
            return CallPool(Asker(self._spec), self._spec.max_in_flight)
        except ValueError as error:  # a key, say, that the launcher has in its environment and this process has not
            raise ValueError(f"{error} (a worker process on {socket.gethostname()})") from None

    def _journal(self, span: str) -> SpanJournal:
        if self._file is None or self._file.span != span:
            if self._file is not None and self._file.pending == 0:
                self._file.close()
            self._file = self._pool.asker.journal(span, self._index)
        return self._file

    def _add(self, job: Job) -> None:
        """Takes a record into the next call, or has it wait for the answer to another whose request is the same."""
        shared = self._pool.asker.handover.shared
        job.key = None if shared is None else shared.key(job.record.fields)
        self._window.out += 1
        job.file.pending += 1
        same = self._group.get(job.key or job)
        if same is not None:
            same.append(job)
            self._waits(job)
        elif shared is not None and job.key is not None and shared.knows(job.key):
            self._send({job.key: [job]})
        else:
            self._group[job.key or job] = [job]
            if len(self._group) >= self._records_per_call:
                self._submit()

    def _submit(self) -> None:
        """Sends the next call on its way."""
        group, self._group = self._group, {}
        self._send(group)

    def _send(self, group: Mapping[bytes | Job, list[Job]]) -> None:
        """Asks about the records of a call, by request, but for those that another asks about or has asked."""
        asking: list[Job] = []
        try:
            for key, jobs in group.items():
                claimed = [job for job in jobs if self._claim(job)]
                if claimed and (isinstance(key, Job) or not self._has_answer(key, claimed)):
                    asking.append(claimed[0])
        finally:
            if asking:  # also where this bundle breaks: others may wait for them
                self._pool.submit(asking)

    def _claim(self, job: Job) -> bool:
        claimed = self._pool.asker.handover.claim(job)
        if not claimed:
            self._waits(job)
        return claimed

    def _has_answer(self, key: bytes, jobs: list[Job]) -> bool:
        """Whether the jobs, whose request is the same, have an answer without asking, now or when one comes."""
        found = self._pool.asker.handover.join(key, jobs)
        if found:
            self._waits(jobs[0])  # those behind it do so since they came
        return found

    def _waits(self, job: Job) -> None:
        if not job.waits:
            job.waits = True
            self._window.waiting += 1

    def _wait(self) -> Job:
        while True:
            self._metrics.throttled(self._pool.asker.throttled)  # while a bundle waits, however long it takes
            if self._again and time.monotonic() >= self._next_look:
                jobs, self._again = self._again, []
                self._next_look = time.monotonic() + AGAIN_SECONDS
                for job in jobs:
                    self._send({job.key or job: [job]})
            try:
                return self._window.replies.get(timeout=AGAIN_SECONDS if self._again else POLL_SECONDS)
            except Empty:  # a stop that another process asked for wakes the threads that wait for their turn
                self._pool.asker.stop.is_set()

    def _take(self, job: Job) -> Iterator[Any]:
        self._window.waiting -= job.waits
        job.waits = False
        if job.replays and job.outcome is None and not self._pool.asker.stop.is_set():
            self._again.append(job)
            self._waits(job)
            return
        self._window.out -= 1
        job.file.pending -= 1
        if job.file.pending == 0 and job.file is not self._file:
            job.file.close()
        if isinstance(job.outcome, BaseException):
            raise job.outcome
        if job.outcome is None:
            self._unprocessed += 1
        else:
            (self._metrics.replayed if job.replays else self._metrics.answered)(job.outcome)
            yield self._emit(job.outcome)

    def _emit(self, entry: Entry) -> Any:
        add(self._notes, entry.notes)
        return entry.row if entry.outcome == OK else beam.pvalue.TaggedOutput(DEAD_LETTER, entry.row)


class CallPool(workers.Workers[Sequence[Job]]):
    """The threads that ask the model for one run in one process."""

    def __init__(self, asker: Asker, count: int) -> None:
        self.asker = asker
        super().__init__(count, asker.work, asker.close)

    def close(self) -> None:
        """Lets calls that are under way end, starts no other, then closes the clients."""
        self.asker.stop.event.set()
        super().close()
