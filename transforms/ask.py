"""One record -> its journal entry: what the threads of a process share while they ask the model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from transforms import account_limits, budget, failure_share
from transforms.budget import Share, Spent
from transforms.call_metrics import WholeSeconds
from transforms.call_spec import CallSpec
from transforms.entries import Entries
from transforms.handover import Handover
from transforms.heartbeat import Heartbeat
from transforms.job import Job
from transforms.journal import Entry
from transforms.llm.caller import Answer, Caller
from transforms.llm.defaults import parameters
from transforms.llm.endpoint import connect_all
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import AccountError, CallError, RowError, Stopped
from transforms.llm.group_caller import GroupCaller, GroupOutcome
from transforms.llm.prompts import Prompts
from transforms.open_budget import open_budget
from transforms.records import Record
from transforms.reserve import Reserve
from transforms.shared_answers import SharedAnswers
from transforms.span_index import SpanIndex
from transforms.span_journal import SpanJournal, rolled
from transforms.stop import BUDGET, DISK_FULL, FAILURE_SHARE, GONE, UNSAVED, StopSign

Outcome = TypeVar("Outcome")


class Asker:
    """What the threads of one process share: endpoints, limits, stop sign. Turns a record into its journal entry."""

    def __init__(self, spec: CallSpec) -> None:
        self.stop = StopSign(spec.journal)
        self._spec = spec
        self.entries = Entries(spec)
        self._failures = failure_share.of_run(spec.journal, spec.limits.max_failure_share)
        self._reserve = Reserve(spec.journal, spec.max_in_flight, self._disk_is_full)
        try:
            paces = account_limits.of_run(spec.journal, spec.model, spec.limits)
            live = connect_all(spec.task, spec.model, spec.limits, max_in_flight=spec.max_in_flight, paces=paces)
            known = parameters(spec.model, spec.task.records_per_call)
            answer = {name: known[name] for name in spec.model.parameters}
            self._endpoints = Endpoints(live, stop=self.stop.event, parameters=answer)
            self.throttled = WholeSeconds(lambda: self._endpoints.throttled)
            self._caller = Caller(spec.task, spec.input, spec.model, spec.limits, endpoints=self._endpoints)
            several = spec.task.records_per_call > 1
            self._group = GroupCaller(spec.task, spec.input, self._caller) if several else None
            prompts = Prompts(spec.task, spec.input, spec.model)
            shared = SharedAnswers(prompts) if spec.share_identical else None
            self.handover = Handover(spec, shared, self.entries, self.keep, self.stop)
            self._budget = budget.of_run(spec.journal, partial(open_budget, spec)) if spec.budget is not None else None
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

    def journal(self, span: str, index: SpanIndex) -> SpanJournal:
        """Opens the journal of a span for a bundle, whose index that is. Raises OSError."""
        return SpanJournal(self._spec.journal, span, self._journal, index, self._reserve)

    def save(self) -> None:
        """Waits until all outcomes so far are saved, where that was put off: see rolled_journal.py. Raises OSError."""
        if self._journal is not None:
            self._journal.save()

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
                    others += self.handover.hand_back(job, entry)
        except BaseException as error:
            outcome = error
        for job in left:
            others += self.handover.hand_back(job, outcome)
        return others

    def _goes_on(self, jobs: Sequence[Job]) -> bool:
        return jobs[0].window.open and not self.stop.is_set()

    def _asked(self, jobs: Sequence[Job]) -> Iterator[list[tuple[Job, Entry | None]]]:
        """What becomes of the jobs, as soon as it is known: of those that a call decides all at once. One that a call
        together with others gave no answer is asked alone; where such a call gave none an answer, the halves are
        asked."""
        parts = [list(jobs)]
        while parts:
            part = parts.pop()
            if not self._goes_on(part):
                yield [(job, self.entries.unfinished(job)) for job in part]
            elif len(part) == 1:
                job = part[0]
                with self.heartbeat.working():
                    entry = self.ask(job.record, job.digest, job.earlier)
                yield [(job, entry or self.entries.unfinished(job))]
            else:
                with self.heartbeat.working():
                    outcome = self._ask_group(part)
                if outcome is None:
                    yield [(job, self.entries.unfinished(job)) for job in part]
                    continue
                ended: list[tuple[Job, Entry | None]] = []
                again: list[Job] = []
                for job, each in zip(part, outcome.outcomes, strict=True):
                    if isinstance(each, RowError):
                        job.earlier.append(each)
                        again.append(job)
                    else:
                        ended.append((job, self.entries.of(job.record, job.digest, each, job.earlier)))
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
                entry = None if outcome is None else self.entries.of(record, value, outcome)
            finally:
                self._budget.settle(share, entry)
        return None if outcome is None else self.entries.of(record, value, outcome, earlier)

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
