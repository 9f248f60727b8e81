"""Record -> outcome: rate-limited, concurrent model calls in a DoFn, each answer on disk before anybody sees it.

A sliding window over the bundle: a record enters as soon as any thread of the process is free, no batch waits for
its slowest member, and `finish_bundle` waits for the last. A row's failure becomes a row; what stops the account
leaves rows undone; only a fault of our own machine (a full disk) raises.

An engine may repeat a bundle. What this run's journal already holds is then given again, not called again.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.metrics import Metrics
from apache_beam.transforms.window import GlobalWindows

from transforms import budget, files, workers
from transforms.budget import Budget, BudgetSpec, Spent
from transforms.digests import digest
from transforms.journal import DEAD_LETTER, HEADER_FILE, OK, Entry, JournalFile, SpanIndex
from transforms.llm.caller import Answer, Caller
from transforms.llm.endpoint import connect_all
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import AccountError, CallError, Stopped
from transforms.llm.forecast import Forecast
from transforms.records import Record, Row, utc
from transforms.rows import RunStamp, failure_row
from transforms.settings import Input, Limits, Model, Task
from transforms.stop import BUDGET, POLL_SECONDS, StopSign
from transforms.tally import TALLY, add, bundle_tally


@dataclass(frozen=True)
class CallSpec:
    """All that calling needs, as plain values. `carried` are the input columns that results carry along. A budget
    needs model.price."""

    task: Task
    input: Input
    model: Model
    limits: Limits
    max_in_flight: int
    carried: Mapping[str, pa.DataType]
    stamp: RunStamp
    journal: str
    budget: BudgetSpec | None = None


class Window:
    """The records of one bundle that are out. `open` ends with the bundle, also where that breaks: a record of a
    broken bundle that no thread has taken yet is not called any more."""

    __slots__ = ("open", "out", "replies")

    def __init__(self) -> None:
        self.open = True
        self.out = 0
        self.replies: SimpleQueue[Job] = SimpleQueue()


class Job:
    """One record on its way through the threads and back."""

    __slots__ = ("digest", "file", "outcome", "record", "window")

    def __init__(self, record: Record, value: bytes, file: SpanJournal, window: Window) -> None:
        self.record = record
        self.digest = value
        self.file = file
        self.window = window
        self.outcome: Entry | BaseException | None = None  # None: there was no call, the row is left undone


class SpanJournal(JournalFile):
    """The journal file of one span, which knows how many of its records are still out."""

    def __init__(self, folder: str, span: str) -> None:
        super().__init__(folder, span)
        self.span = span
        self.pending = 0


class Asker:
    """What the threads of one process share: endpoints, limits, stop sign. Turns a record into its journal entry."""

    def __init__(self, spec: CallSpec) -> None:
        self.stop = StopSign(spec.journal)
        self._spec = spec
        live = connect_all(spec.task, spec.model, spec.limits, max_in_flight=spec.max_in_flight)
        self._endpoints = Endpoints(live, stop=self.stop.event, parameters=spec.model.parameters)
        self._caller = Caller(spec.task, spec.input, spec.model, spec.limits, endpoints=self._endpoints)
        self._budget = None if spec.budget is None else budget.of_run(spec.journal, self._open_budget)

    def work(self, job: Job) -> None:
        """Does one job. Never raises: what goes wrong with this machine is handed back as the outcome."""
        try:
            if job.window.open and not self.stop.is_set():
                job.outcome = self.ask(job.record, job.digest)
                if job.outcome is not None:
                    job.file.append(job.outcome)
        except BaseException as error:
            job.outcome = error
        job.window.replies.put(job)

    def ask(self, record: Record, value: bytes) -> Entry | None:
        """Calls for one record. None where the run is stopped before there is an answer, or the budget is spent."""
        if self._budget is None:
            return self._call(record, value)
        try:
            share = self._budget.reserve(record.fields, self.stop)
        except Spent as error:
            self.stop.set(BUDGET, str(error))
            return None
        except Stopped:
            return None
        entry = None
        try:
            entry = self._call(record, value)
        finally:
            self._budget.settle(share, entry)
        return entry

    def _call(self, record: Record, value: bytes) -> Entry | None:
        try:
            answer = self._caller.ask(record.fields)
            return Entry(value, OK, self._result(record, answer), Counter(answer.notes))
        except AccountError as error:
            self.stop.set(error.reason, error.message)
            return None
        except Stopped:
            return None
        except CallError as error:
            if error.account is not None:
                self.stop.set(error.account.reason, error.account.message)
            return Entry(value, DEAD_LETTER, self._failure(record, error), Counter(error.notes))

    def close(self) -> None:
        """Closes the clients."""
        self._endpoints.close()

    def _open_budget(self) -> Budget:
        spec = self._spec
        assert spec.budget is not None
        assert spec.model.price is not None
        forecast = Forecast(spec.task, spec.input, spec.model, spec.model.price)
        spent_usd = spec.budget.spent_usd + budget.journal_cost_usd(spec.journal)
        return Budget(spec.budget.max_cost_usd, spent_usd, forecast)

    def _result(self, record: Record, answer: Answer) -> Row:
        spec, completion = self._spec, answer.completion
        return {
            "id": record.id,
            **answer.values,
            **{name: record.fields.get(name) for name in spec.carried},
            "output_text": completion.text,
            "model": completion.model,
            "finish_reason": completion.finish_reason,
            "prompt_tokens": answer.usage.prompt_tokens,
            "completion_tokens": answer.usage.completion_tokens,
            "cached_tokens": answer.usage.cached_tokens,
            "cost_usd": answer.cost_usd,
            "attempts": answer.attempts,
            "latency_ms": answer.latency_ms,
            "run_id": spec.stamp.run_id,
            "task_hash": spec.stamp.task_hash,
            "finished_at": utc(time.time()),
        }

    def _failure(self, record: Record, error: CallError) -> Row:
        return failure_row(
            self._spec.stamp,
            id=record.id,
            reason=error.reason,
            message=error.message,
            input=record.fields,
            source=record.source,
            retryable=error.retryable,
            http_status=error.http_status,
            attempts=error.attempts,
            prompt_tokens=error.usage.prompt_tokens,
            completion_tokens=error.usage.completion_tokens,
            cost_usd=error.cost_usd,
            output_text=error.completion.text if error.completion else None,
        )


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
        yield bundle_tally({"unprocessed": self._unprocessed, **({"notes": self._notes} if self._notes else {})})

    def _start(self) -> CallPool:
        return CallPool(Asker(self._spec), self._spec.max_in_flight)

    def _turn_to(self, span: str) -> None:
        if self._file is not None and self._file.pending == 0:
            self._file.close()
        self._file = SpanJournal(self._spec.journal, span)
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
