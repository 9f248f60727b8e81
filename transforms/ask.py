"""One record -> its journal entry: what the threads of a process share while they ask the model."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, TypeVar

import pyarrow as pa

from transforms import budget, failure_share
from transforms.agreement import expected_text
from transforms.budget import Budget, BudgetSpec, Share, Spent
from transforms.heartbeat import Heartbeat
from transforms.journal import DEAD_LETTER, OK, Entry
from transforms.llm.caller import Answer, Caller
from transforms.llm.defaults import parameters
from transforms.llm.endpoint import connect_all
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import AccountError, CallError, RowError, Stopped
from transforms.llm.forecast import Forecast
from transforms.llm.group_caller import GroupCaller, GroupOutcome, with_earlier
from transforms.llm.notes import SHARED
from transforms.llm.prompts import Prompts
from transforms.llm.text import excerpt
from transforms.read import order_of
from transforms.records import PLACE, Record, Row, utc
from transforms.reserve import Reserve
from transforms.rolled_journal import RollRule
from transforms.rows import EXPECTED, RECORDS_IN_CALL, SHARED_FROM, RunStamp, failure_row
from transforms.settings import Input, Limits, Model, Task
from transforms.shared_answers import Original, SharedAnswers, shared_failure, shared_result
from transforms.span_journal import SpanJournal, rolled
from transforms.stop import BUDGET, DISK_FULL, FAILURE_SHARE, GONE, UNSAVED, StopSign

Outcome = TypeVar("Outcome")


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
    share_identical: bool = False


class Window:
    """The records of one bundle that are out, and how many of them only wait for another's answer. `open` ends with
    the bundle, also where that breaks: a record of a broken bundle that no thread has taken yet is not called any
    more."""

    __slots__ = ("open", "out", "replies", "waiting")

    def __init__(self) -> None:
        self.open = True
        self.out = 0
        self.waiting = 0
        self.replies: SimpleQueue[Job] = SimpleQueue()


class Job:
    """One record on its way through the threads and back. `key` is the digest of its request, where that may be
    another's as well; `waits`, that it is out without a thread; `earlier`, the requests about it and others that gave
    it no answer."""

    __slots__ = ("digest", "earlier", "file", "key", "outcome", "record", "waits", "window")

    def __init__(
        self, record: Record, value: bytes, file: SpanJournal, window: Window, key: bytes | None = None
    ) -> None:
        self.record = record
        self.digest = value
        self.file = file
        self.window = window
        self.key = key
        self.waits = False
        self.earlier: list[CallError] = []
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
            known = parameters(spec.model, spec.task.records_per_call)
            answer = {name: known[name] for name in spec.model.parameters}
            self._endpoints = Endpoints(live, stop=self.stop.event, parameters=answer)
            self._caller = Caller(spec.task, spec.input, spec.model, spec.limits, endpoints=self._endpoints)
            several = spec.task.records_per_call > 1
            self._group = GroupCaller(spec.task, spec.input, self._caller) if several else None
            prompts = Prompts(spec.task, spec.input, spec.model)
            self.shared = SharedAnswers(prompts) if spec.share_identical else None
            self._budget = None if spec.budget is None else budget.of_run(spec.journal, self._open_budget)
            self._journal = rolled(spec.journal, spec.roll, self._cannot_save)
        except BaseException:
            self._reserve.close()
            raise
        self.heartbeat = Heartbeat(spec.journal, self._endpoints.counts, max_in_flight=spec.max_in_flight)

    def work(self, jobs: Sequence[Job]) -> None:
        """Does the jobs, all of one bundle, several of them by calls that they share. Never raises: what goes wrong
        with this machine is handed back as the outcome."""
        todo = [jobs]
        while todo:
            todo += [[job] for job in self._work(todo.pop())]

    def journal(self, span: str) -> SpanJournal:
        """Opens the journal of a span for a bundle."""
        return SpanJournal(self._spec.journal, span, self._journal, self._reserve)

    def save(self, span: str | None = None) -> bool:
        """Waits until all outcomes so far, or those of one span, are saved, where that was put off: see
        rolled_journal.py. Returns whether there were any. Raises OSError."""
        return self._journal is not None and self._journal.save(span)

    def _work(self, jobs: Sequence[Job]) -> list[Job]:
        """As `work`, but for those that waited for one of the jobs, and are now to ask themselves."""
        left = dict.fromkeys(jobs)
        others: list[Job] = []
        outcome: BaseException | None = None
        try:
            for ended in self._asked(jobs):
                # All outcomes of a call are on disk before anybody sees one of them.
                for job, entry in ended:
                    if entry is not None:
                        self.keep(job.file, entry, grouped=len(jobs) > 1)
                for job, entry in ended:
                    del left[job]
                    others += self._hand_back(job, entry)
        except BaseException as error:
            outcome = error
        for job in left:
            others += self._hand_back(job, outcome)
        return others

    def _goes_on(self, jobs: Sequence[Job]) -> bool:
        return jobs[0].window.open and not self.stop.is_set()

    def _hand_back(self, job: Job, outcome: Entry | BaseException | None) -> list[Job]:
        """Gives a job back to its bundle, and to those that wait for its answer what is theirs. Returns who of them is
        to ask now, if any."""
        job.outcome = outcome
        job.window.replies.put(job)
        if self.shared is None or job.key is None:
            return []
        entry = outcome if isinstance(outcome, Entry) else None
        # Where our machine is at fault, as with a full disk, nobody is to pay for another answer.
        stopped = isinstance(outcome, BaseException) or self.stop.is_set()
        settled = self.shared.settle(job.key, entry, stopped=stopped)
        for other in settled.gone:
            other.outcome = None
            other.window.replies.put(other)
        for other in settled.waiting:
            assert settled.original is not None
            try:
                other.outcome = self.share(other.record, other.digest, settled.original)
                self.keep(other.file, other.outcome, copied=True)
            except BaseException as error:
                other.outcome = error
            other.window.replies.put(other)
        return [] if settled.next is None else [settled.next]

    def share(self, record: Record, value: bytes, original: Original) -> Entry:
        """The outcome of a record whose request was made for another one."""
        row = original.row
        if original.outcome == OK:
            return Entry(value, OK, shared_result(row, self._own(record)), {SHARED: 1})
        failure = failure_row(
            self._spec.stamp, id=record.id, input=record.fields, source=record.source, **shared_failure(row)
        )
        return Entry(value, DEAD_LETTER, failure, {SHARED: 1})

    def _asked(self, jobs: Sequence[Job]) -> Iterator[list[tuple[Job, Entry | None]]]:
        """What becomes of the jobs, as soon as it is known: of those that a call decides all at once. One that a call
        together with others gave no answer is asked alone; where such a call gave none an answer, the halves are
        asked."""
        parts = [list(jobs)]
        while parts:
            part = parts.pop()
            if not self._goes_on(part):
                yield [(job, self._unfinished(job)) for job in part]
            elif len(part) == 1:
                job = part[0]
                with self.heartbeat.working():
                    entry = self.ask(job.record, job.digest, job.earlier)
                yield [(job, entry or self._unfinished(job))]
            else:
                with self.heartbeat.working():
                    outcome = self._ask_group(part)
                if outcome is None:
                    yield [(job, self._unfinished(job)) for job in part]
                    continue
                ended: list[tuple[Job, Entry | None]] = []
                again: list[Job] = []
                for job, each in zip(part, outcome.outcomes, strict=True):
                    if isinstance(each, RowError):
                        job.earlier.append(each)
                        again.append(job)
                    else:
                        ended.append((job, self._entry(job.record, job.digest, each, job.earlier)))
                if outcome.error is not None and again:
                    half = len(again) // 2
                    parts += [again[half:], again[:half]]
                else:
                    parts += [[job] for job in reversed(again)]
                if ended:
                    yield ended

    def _ask_group(self, jobs: Sequence[Job]) -> GroupOutcome | None:
        """Makes one request for several records. None where the run is stopped before there is an answer."""
        assert self._group is not None
        rows = [job.record.fields for job in jobs]
        if self._budget is None:
            return self._stoppable(self._group.ask, rows)
        share = self._reserved(self._budget.reserve_group, rows)
        if share is None:
            return None
        outcome = None
        try:
            outcome = self._stoppable(self._group.ask, rows)
        finally:
            self._budget.settle_group(share, outcome)
        return outcome

    def ask(self, record: Record, value: bytes, earlier: Sequence[CallError] = ()) -> Entry | None:
        """Calls for one record, after `earlier` requests about it and others. None where the run is stopped before
        there is an answer, or the budget is spent."""
        if self._budget is None:
            outcome = self._call(record)
        else:
            share = self._reserved(self._budget.reserve, record.fields)
            if share is None:
                return None
            entry = outcome = None
            try:
                outcome = self._call(record)
                entry = None if outcome is None else self._entry(record, value, outcome)
            finally:
                self._budget.settle(share, entry)
        return None if outcome is None else self._entry(record, value, outcome, earlier)

    def _reserved(self, reserve: Callable[[Any, StopSign], Share], what: Any) -> Share | None:
        """What is set aside for a call; None where the budget is spent or the run is stopped."""
        try:
            return reserve(what, self.stop)
        except Spent as error:
            self.stop.set(BUDGET, str(error))
        except Stopped:
            pass
        return None

    def _call(self, record: Record) -> Answer | CallError | None:
        try:
            return self._stoppable(self._caller.ask, record.fields)
        except CallError as error:
            if error.account is not None:
                self.stop.set(error.account.reason, error.account.message)
            return error

    def _stoppable(self, ask: Callable[[Any], Outcome], what: Any) -> Outcome | None:
        """What `ask` says of `what`; None where it says that the run is to be stopped."""
        try:
            return ask(what)
        except AccountError as error:
            self.stop.set(error.reason, error.message)
        except Stopped:
            pass
        return None

    def _entry(
        self, record: Record, value: bytes, outcome: Answer | CallError, earlier: Sequence[CallError] = ()
    ) -> Entry:
        if earlier:
            outcome = with_earlier(earlier, outcome)
        if isinstance(outcome, Answer):
            return Entry(value, OK, self._result(record, outcome), Counter(outcome.notes))
        return Entry(value, DEAD_LETTER, self._failure(record, outcome), Counter(outcome.notes))

    def _unfinished(self, job: Job) -> Entry | None:
        """The outcome of a record that was to be asked alone when the run stopped. What it has taken is known only by
        a row of its own: a failure, which the next run tries again."""
        if not any(error.completions for error in job.earlier):
            return None
        *before, last = job.earlier
        entry = self._entry(job.record, job.digest, last, before)
        message = excerpt(f"{last.message} (asked together with others; the run stopped before it was asked alone)")
        return entry._replace(row={**entry.row, "retryable": True, "message": message})

    def keep(self, file: SpanJournal, entry: Entry, *, grouped: bool = False, copied: bool = False) -> None:
        """Writes an outcome to the journal: of a call of its own, of one that rows share, or copied from another's.
        Raises OSError where that fails, and also where it did not, but the disk
        is full: the run has to end."""
        try:
            file.append(entry)
        except FileNotFoundError as error:
            self.stop.set(GONE, str(error))  # nothing that is asked from now on could be kept
            raise
        if self._reserve.error is not None:
            self._disk_is_full()  # once more: now there may be room to say so
            raise self._reserve.error
        problem = None if copied else self._failures.add(entry, grouped=grouped)
        if problem is not None:
            self.stop.set(FAILURE_SHARE, problem)

    def _disk_is_full(self) -> None:
        self.stop.set(DISK_FULL, f"no space left on the disk of {self._spec.journal}")

    def _cannot_save(self, error: OSError) -> None:
        self.stop.set(UNSAVED, str(error))

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

    def _own(self, record: Record) -> Row:
        """The columns of a result that are the record's and not its answer's."""
        right = self._spec.task.expected
        return {
            "id": record.id,
            **{name: record.fields.get(name) for name in self._spec.carried},
            **({} if right is None else {EXPECTED: expected_text(record.fields.get(right))}),
            **({PLACE: order_of(record)} if self._spec.ordered else {}),
        }

    def _result(self, record: Record, answer: Answer) -> Row:
        spec, completion = self._spec, answer.completion
        return {
            "id": record.id,
            **answer.values,
            **self._own(record),
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
            **({RECORDS_IN_CALL: answer.records} if self._group is not None else {}),
            **({SHARED_FROM: None} if self.shared is not None else {}),
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
