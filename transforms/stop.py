"""Stopping a run early: one file that every worker process sees, whichever engine runs it.

The first reason given stands. Workers look for the file about once a second; the process that stops knows at once.
"""

from __future__ import annotations

import threading
import time
import weakref

from transforms import files

INTERRUPTED = "interrupted"
BUDGET = "budget"
LOCK_LOST = "lock_lost"  # another run has taken the output over: nothing may be published
POLL_SECONDS = 1.0

_signs: weakref.WeakSet[StopSign] = weakref.WeakSet()  # all of the process: whoever sets one sets those of its run
_lock = threading.RLock()  # a signal may come while its thread holds it


class StopSign:
    """Says whether a run is to make no more calls. Safe for threads."""

    def __init__(self, journal_folder: str) -> None:
        self._path = files.join(journal_folder, "stop.json")
        self._checked = time.monotonic()
        self._given: dict[str, str] | None = None
        self.event = threading.Event()  # for those who wait: set once this process knows
        with _lock:
            _signs.add(self)

    def set(self, kind: str, message: str) -> None:
        """Stops the run: `kind` is INTERRUPTED, BUDGET, LOCK_LOST, which goes before all others, or an account
        error's reason; `message` is for people."""
        given = {"kind": kind, "message": message}
        with _lock:
            for sign in _signs:
                if sign._path == self._path:
                    if sign._given is None or kind == LOCK_LOST:
                        sign._given = given
                    sign.event.set()
            if kind == LOCK_LOST or not files.exists(self._path):
                files.write_json(self._path, given)

    def is_set(self) -> bool:
        """Whether anybody stopped the run."""
        if not self.event.is_set() and time.monotonic() - self._checked > POLL_SECONDS:
            self._checked = time.monotonic()
            try:
                found = files.exists(self._path)
            except OSError:  # a store that has no time for this: the run goes on, the next look will tell
                found = False
            if found:
                self.event.set()
        return self.event.is_set()


def reason(journal_folder: str) -> dict[str, str] | None:
    """Why a run was stopped: `kind` and `message`, or None where it was not."""
    path = files.join(journal_folder, "stop.json")
    with _lock:  # whoever sets a sign is done with writing it down
        given = next((sign._given for sign in _signs if sign._path == path and sign._given), None)
    if given is not None and given["kind"] == LOCK_LOST:
        return given
    if files.exists(path):
        found: dict[str, str] = files.read_json(path)
        return found
    return given
