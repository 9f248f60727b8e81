"""Who does what only one is to do, and who waits for it, in one process.

Two instances of a step may be at the same records at once: an engine that restarts a bundle while the old one still
drains, or runs one twice to see which is faster. The one who claims a record asks; the other has the outcome too.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from transforms.job import Job

Key = TypeVar("Key", bound=Hashable)
RecordKey = tuple[str, bytes]  # see Job.claim


class PassedOn(NamedTuple):
    """Who does it now, if anybody. `gone` waited for a bundle that is no longer there, or for nothing."""

    next: Job | None
    gone: Sequence[Job]


class Claims(Generic[Key]):
    """Safe for threads. Each claim that is granted needs a `settle`, or a `pass_on` to somebody else."""

    def __init__(self) -> None:
        self._waiting: dict[Key, list[Job]] = {}  # by what is claimed
        self._lock = threading.Lock()

    def __contains__(self, key: Key) -> bool:
        return key in self._waiting

    def claim(self, key: Key, jobs: Sequence[Job]) -> bool:
        """Whether the first of the jobs is to do it; the others wait for it. Else all of them wait for another."""
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None:
                self._waiting[key] = list(jobs[1:])
                return True
            waiting += jobs
            return False

    def settle(self, key: Key) -> list[Job]:
        """It is done, or given up. Returns those who waited."""
        with self._lock:
            return self._waiting.pop(key, [])

    def pass_on(self, key: Key, *, stopped: bool) -> PassedOn:
        """It was given up: one of those who wait is to do it, or nobody where the run is `stopped`."""
        with self._lock:
            waiting = self._waiting.pop(key, [])
            live, gone = _parted(waiting, stopped=stopped)
            if not live:
                return PassedOn(None, gone)
            self._waiting[key] = live[1:]
            return PassedOn(live[0], gone)


def _parted(jobs: Iterable[Job], *, stopped: bool) -> tuple[list[Job], list[Job]]:
    live: list[Job] = []
    gone: list[Job] = []
    for job in jobs:
        (gone if stopped or not job.window.open else live).append(job)
    return live, gone


_lock = threading.Lock()
_claims: dict[str, Claims[RecordKey]] = {}


def of_run(journal_folder: str) -> Claims[RecordKey]:
    """The process's claims to the records of the run with that journal. They outlive the threads of the run, which
    may be ending while others begin."""
    with _lock:
        return _claims.setdefault(journal_folder, Claims())
