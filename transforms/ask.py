"""One record -> its journal entry: what the threads of a process share while they ask the model."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from queue import SimpleQueue

import pyarrow as pa

from transforms import budget, failure_share
from transforms.agreement import expected_text
from transforms.budget import Budget, BudgetSpec, Spent
from transforms.heartbeat import Heartbeat
from transforms.journal import DEAD_LETTER, OK, Entry
from transforms.llm.caller import Answer, Caller
from transforms.llm.endpoint import connect_all
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import AccountError, CallError, Stopped
from transforms.llm.forecast import Forecast
from transforms.read import order_of
from transforms.records import PLACE, Record, Row, utc
from transforms.reserve import Reserve
from transforms.rolled_journal import RollRule
from transforms.rows import EXPECTED, RunStamp, failure_row
from transforms.settings import Input, Limits, Model, Task
from transforms.span_journal import SpanJournal, rolled
from transforms.stop import BUDGET, DISK_FULL, FAILURE_SHARE, GONE, UNSAVED, StopSign


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
    ordered: bool = False  # results say where their records stand in the input
    roll: RollRule = field(default_factory=RollRule)  # of a journal on a store


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


class Asker:
    """What the threads of one process share: endpoints, limits, stop sign. Turns a record into its journal entry."""

    def __init__(self, spec: CallSpec) -> None:
        self.stop = StopSign(spec.journal)
        self._spec = spec
        self._failures = failure_share.of_run(spec.journal, spec.limits.max_failure_share)
        self._reserve = Reserve(spec.journal, spec.max_in_flight, self._disk_is_full)
        try:
            live = connect_all(spec.task, spec.model, spec.limits, max_in_flight=spec.max_in_flight)
            self._endpoints = Endpoints(live, stop=self.stop.event, parameters=spec.model.parameters)
            self._caller = Caller(spec.task, spec.input, spec.model, spec.limits, endpoints=self._endpoints)
            self._budget = None if spec.budget is None else budget.of_run(spec.journal, self._open_budget)
            self._journal = rolled(spec.journal, spec.roll, self._cannot_save)
        except BaseException:
            self._reserve.close()
            raise
        self.heartbeat = Heartbeat(spec.journal, self._endpoints.counts, max_in_flight=spec.max_in_flight)

    def work(self, job: Job) -> None:
        """Does one job. Never raises: what goes wrong with this machine is handed back as the outcome."""
        try:
            if job.window.open and not self.stop.is_set():
                with self.heartbeat.working():
                    entry = self.ask(job.record, job.digest)
                    if entry is not None:
                        self._keep(job.file, entry)
                    job.outcome = entry
        except BaseException as error:
            job.outcome = error
        job.window.replies.put(job)

    def journal(self, span: str) -> SpanJournal:
        """Opens the journal of a span for a bundle."""
        return SpanJournal(self._spec.journal, span, self._journal, self._reserve)

    def save(self, span: str | None = None) -> bool:
        """Waits until all outcomes so far, or those of one span, are saved, where that was put off: see
        rolled_journal.py. Returns whether there were any. Raises OSError."""
        return self._journal is not None and self._journal.save(span)

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

    def _keep(self, file: SpanJournal, entry: Entry) -> None:
        """Writes an outcome to the journal. Raises OSError where that fails, and also where it did not, but the disk
        is full: the run has to end."""
        try:
            file.append(entry)
        except FileNotFoundError as error:
            self.stop.set(GONE, str(error))  # nothing that is asked from now on could be kept
            raise
        if self._reserve.error is not None:
            self._disk_is_full()  # once more: now there may be room to say so
            raise self._reserve.error
        problem = self._failures.add(entry)
        if problem is not None:
            self.stop.set(FAILURE_SHARE, problem)

    def _disk_is_full(self) -> None:
        self.stop.set(DISK_FULL, f"no space left on the disk of {self._spec.journal}")

    def _cannot_save(self, error: OSError) -> None:
        self.stop.set(UNSAVED, str(error))

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
        """Saves what is left to be saved, closes the clients, and gives back what was held on the disk."""
        if self._journal is not None:
            self._journal.close()
        self.heartbeat.close()
        self._reserve.close()
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
        right = spec.task.expected
        return {
            "id": record.id,
            **answer.values,
            **{name: record.fields.get(name) for name in spec.carried},
            **({} if right is None else {EXPECTED: expected_text(record.fields.get(right))}),
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
            **({PLACE: order_of(record)} if spec.ordered else {}),
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
