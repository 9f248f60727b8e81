"""Who asks about a record, and who is given its outcome: the bundle that brought it, others that wait for the same
record, and records whose request is the same.

The order leaves no gap: a record is claimed in this process, then among processes, then the journal is looked at, and
only then there is a call; its outcome is in the journal before the claims end.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from transforms import claims, record_locks
from transforms.call_spec import CallSpec
from transforms.entries import Entries
from transforms.job import Job
from transforms.journal import Entry
from transforms.shared_answers import Original, SharedAnswers
from transforms.span_journal import SpanJournal
from transforms.stop import StopSign


class Keep(Protocol):
    """Writes an outcome to the journal. Raises OSError."""

    def __call__(self, file: SpanJournal, entry: Entry, *, copied: bool = False) -> None:
        """`copied`: it is another record's."""


class Handover:
    """Of one run in one process. Safe for threads. `shared` is None where requests are not shared."""

    def __init__(
        self, spec: CallSpec, shared: SharedAnswers | None, entries: Entries, keep: Keep, stop: StopSign
    ) -> None:
        self.shared = shared
        self._entries = entries
        self._keep = keep
        self._stop = stop
        self._claims = claims.of_run(spec.journal)
        self._locks = record_locks.of_run(spec.journal)
        # As long as a call may take with all its attempts. Beyond that the process that asks must be standing still.
        self._patience = spec.limits.timeout_seconds * spec.limits.max_attempts

    def claim(self, job: Job) -> bool:
        """Whether this job is the one to ask about its record: nobody does so, in this process or another, and the
        journal has no outcome yet. Else it is given back, now or later, as `give` says."""
        job.replays = True  # before anybody can give it an outcome
        if not self._claims.claim(job.claim, [job]):
            return False
        known: Entry | BaseException | None
        try:
            job.locked = self._locks.take(job.digest)
            known = job.file.find(job.digest)
        except BaseException as error:
            known = error
        if known is not None or not (job.locked or self._is_late(job)):
            self.give(job, known)
            return False
        job.replays = False
        return True

    def join(self, key: bytes, jobs: Sequence[Job]) -> bool:
        """Whether jobs that are claimed, and whose request is the same, have an answer without asking, or wait for
        one. Else the first of them is to ask."""
        assert self.shared is not None
        found = self.shared.claim(key, jobs)
        if isinstance(found, bool):
            return found
        for job in jobs:
            self._give_copy(job, found)
        return True

    def give(self, job: Job, outcome: Entry | BaseException | None) -> None:
        """Gives a job back to its bundle, and its entry also to those that wait for the same record. Where it has none
        they are to ask themselves, each in its own bundle: job.replays, and no outcome."""
        if job.locked:
            job.locked = False
            self._locks.release(job.digest)
        waiting = self._claims.settle(job.claim)
        job.outcome = outcome
        job.window.replies.put(job)
        for other in waiting:
            other.outcome = outcome if isinstance(outcome, Entry) else None
            other.window.replies.put(other)

    def hand_back(self, job: Job, outcome: Entry | BaseException | None) -> list[Job]:
        """As `give`, and gives those that wait for the answer to the same request what is theirs. Returns who of them
        is to ask now, if any."""
        self.give(job, outcome)
        if self.shared is None or job.key is None:
            return []
        entry = outcome if isinstance(outcome, Entry) else None
        # Where our machine is at fault, as with a full disk, nobody is to pay for another answer.
        stopped = isinstance(outcome, BaseException) or self._stop.is_set()
        settled = self.shared.settle(job.key, entry, stopped=stopped)
        for other in settled.gone:
            self.give(other, None)
        for other in settled.waiting:
            assert settled.original is not None
            self._give_copy(other, settled.original)
        return [] if settled.next is None else [settled.next]

    def _give_copy(self, job: Job, original: Original) -> None:
        outcome: Entry | BaseException
        try:
            outcome = self._entries.shared(job.record, job.digest, original)
            self._keep(job.file, outcome, copied=True)  # before anybody sees it
        except BaseException as error:
            outcome = error
        self.give(job, outcome)

    def _is_late(self, job: Job) -> bool:
        now = time.monotonic()
        job.since = job.since or now
        return now - job.since > self._patience
