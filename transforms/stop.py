"""Stopping a run early: one file that every worker process sees, whichever engine runs it.

The first reason given stands, save that a lost lock goes before all others. Workers look for the file about once a
second; the process that stops knows at once, also where the file cannot be written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import weakref

from transforms import files
from transforms.held import LockLost
from transforms.journal import HEADER_FILE

INTERRUPTED = "interrupted"
BUDGET = "budget"
FAILURE_SHARE = "failure_share"
LOCK_LOST = "lock_lost"  # another run has taken the output over: nothing may be published
DISK_FULL = "disk_full"
GONE = "journal_gone"
UNSAVED = "journal_unsaved"
WORKER_LOST = "worker_lost"  # where the engine neither goes on without it nor repeats its work
_ERRORS = {DISK_FULL: errno.ENOSPC, GONE: errno.ENOENT, UNSAVED: errno.EIO}
BROKEN = frozenset({*_ERRORS, WORKER_LOST})  # the run ends as broken, whatever the engine repeats
POLL_SECONDS = 1.0

_signs: weakref.WeakSet[StopSign] = weakref.WeakSet()  # all of the process: whoever sets one sets those of its run
_given: dict[str, dict[str, str]] = {}  # the reasons given in this process, by the path of their file
_lock = threading.RLock()


class StopSign:
    """Says whether a run is to make no more calls. Safe for threads, not for a signal's handler: a store's client is
    not."""

    def __init__(self, journal_folder: str) -> None:
        self._path = _path(journal_folder)
        self._checked = time.monotonic()
        self.event = threading.Event()  # for those who wait: set once this process knows
        with _lock:
            _signs.add(self)
            if self._path in _given:
                self.event.set()

    def set(self, kind: str, message: str) -> None:
        """Stops the run: `kind` is one of those above, or an account error's reason; `message` is for people. Never
        raises OSError."""
        lost = kind == LOCK_LOST
        with _lock:
            for sign in _signs:
                if sign._path == self._path:
                    sign.event.set()
            if lost or self._path not in _given:
                _given[self._path] = {"kind": kind, "message": message}
            try:
                if lost or (_is_there(files.parent(self._path)) and not files.exists(self._path)):
                    files.put_json(self._path, _given[self._path])
            except OSError:  # a full disk must not stand in the way of the reason, which may be just that
                pass

    def is_set(self) -> bool:
        """Whether anybody stopped the run."""
        if not self.event.is_set() and time.monotonic() - self._checked > POLL_SECONDS:
            self._checked = time.monotonic()
            with contextlib.suppress(OSError):  # a store that has no time for this: the next look will tell
                if files.exists(self._path):
                    self.event.set()
        return self.event.is_set()


class WorkerLost(Exception):
    """A worker process ended before its work was done, and the run with it."""


def reason(journal_folder: str) -> dict[str, str] | None:
    """Why a run was stopped: `kind` and `message`, or None where it was not."""
    path = _path(journal_folder)
    given = _given.get(path)
    if given is not None and given["kind"] == LOCK_LOST:
        return given
    if files.exists(path):
        found: dict[str, str] = files.read_json(path)
        return found
    return given


def check(journal_folder: str) -> None:
    """Raises where a run must not be published as it is: LockLost where another one has taken its output over, which
    publishes what the journal has; WorkerLost; OSError where the journal could not be written any more."""
    given = reason(journal_folder)
    if given is not None and given["kind"] == LOCK_LOST:
        raise LockLost(given["message"])
    if given is not None and given["kind"] == WORKER_LOST:
        raise WorkerLost(given["message"])
    if given is not None and given["kind"] in _ERRORS:
        number = _ERRORS[given["kind"]]
        raise OSError(number, os.strerror(number), journal_folder)


def _path(journal_folder: str) -> str:
    return files.join(journal_folder, "stop.json")


def _is_there(folder: str) -> bool:
    """False for the folder of a run that is published, or was removed: it is not to be made again."""
    return os.path.isdir(folder) if files.is_local(folder) else files.exists(files.join(folder, HEADER_FILE))
