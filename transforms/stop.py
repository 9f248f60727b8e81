"""Stopping a run early: one file that every worker process sees, whichever engine runs it.

The first reason given stands. Workers look for the file about once a second; the process that stops knows at once,
also where the file cannot be written.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
import weakref

from transforms import files

INTERRUPTED = "interrupted"
BUDGET = "budget"
FAILURE_SHARE = "failure_share"
DISK_FULL = "disk_full"
GONE = "journal_gone"
BROKEN = {DISK_FULL: errno.ENOSPC, GONE: errno.ENOENT}  # the run ends as broken, whatever the engine repeats
POLL_SECONDS = 1.0

_signs: weakref.WeakSet[StopSign] = weakref.WeakSet()  # all of the process: whoever sets one sets those of its run
_given: dict[str, dict[str, str]] = {}  # the reasons given in this process, by the path of their file
_lock = threading.RLock()  # a signal may come while its thread holds it


class StopSign:
    """Says whether a run is to make no more calls. Safe for threads."""

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
        with _lock:
            for sign in _signs:
                if sign._path == self._path:
                    sign.event.set()
            given = _given.setdefault(self._path, {"kind": kind, "message": message})
            try:
                if _is_there(files.parent(self._path)) and not files.exists(self._path):
                    files.write_json(self._path, given)
            except OSError:  # a full disk must not stand in the way of the reason, which may be just that
                with contextlib.suppress(OSError):
                    files.remove([f"{self._path}.part"])

    def is_set(self) -> bool:
        """Whether anybody stopped the run."""
        if not self.event.is_set() and time.monotonic() - self._checked > POLL_SECONDS:
            self._checked = time.monotonic()
            if files.exists(self._path):
                self.event.set()
        return self.event.is_set()


def reason(journal_folder: str) -> dict[str, str] | None:
    """Why a run was stopped: `kind` and `message`, or None where it was not."""
    path = _path(journal_folder)
    if files.exists(path):
        found: dict[str, str] = files.read_json(path)
        return found
    return _given.get(path)


def check(journal_folder: str) -> None:
    """Raises OSError where a run's journal could not be written any more: then it must not be published as it is."""
    given = reason(journal_folder)
    if given is not None and given["kind"] in BROKEN:
        number = BROKEN[given["kind"]]
        raise OSError(number, os.strerror(number), journal_folder)


def _path(journal_folder: str) -> str:
    return files.join(journal_folder, "stop.json")


def _is_there(folder: str) -> bool:
    """False for the folder of a run that is published, or was removed: it is not to be made again."""
    return not files.is_local(folder) or os.path.isdir(folder)
