"""Which records this process asks about, for other processes to see: a byte of a file is locked for each.

    journal/<run_id>/asking

An engine that takes a worker for lost, or for slow, has another one do the same bundle. The kernel holds the locks
(POSIX record locks, which a process loses however it ends, and which also work between machines on a shared file
system that has them), so that whoever waits for an answer of a process that is killed asks itself at once.
"""

from __future__ import annotations

import errno
import fcntl
import os
import threading

from transforms import files

_FILE = "asking"
_TAKEN = frozenset({errno.EAGAIN, errno.EACCES})  # the two ways in which systems say that another has it
_OFFSET_BYTES = 7  # of a digest: locks reach as far as files do


class RecordLocks:
    """Safe for threads, which share the locks of their process: who of them asks is for Claims to say."""

    def __init__(self, folder: str) -> None:
        self._path = files.join(folder, _FILE) if files.is_local(folder) else None
        self._held: set[bytes] = set()
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    def take(self, digest: bytes) -> bool:
        """Whether no other process asks about a record; then none does until `release`. Where locks cannot be had, as
        on a store, nobody is seen."""
        if self._path is None:
            return True
        with self._lock:
            try:
                if self._descriptor is None:
                    self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except OSError:
                return True
            try:
                fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(digest))
                self._held.add(digest)
            except OSError as error:
                return error.errno not in _TAKEN
            finally:
                self._close_unused()
            return True

    def release(self, digest: bytes) -> None:
        """Lets a record go that `take` has granted."""
        with self._lock:
            if self._descriptor is not None and digest in self._held:
                self._held.remove(digest)
                fcntl.lockf(self._descriptor, fcntl.LOCK_UN, 1, _offset(digest))
                self._close_unused()

    def _close_unused(self) -> None:
        # Only then: a process loses all its locks on a file when it closes any descriptor of it.
        if self._descriptor is not None and not self._held:
            os.close(self._descriptor)
            self._descriptor = None


def _offset(digest: bytes) -> int:
    return int.from_bytes(digest[:_OFFSET_BYTES], "big")


_lock = threading.Lock()
_locks: dict[str, RecordLocks] = {}


def of_run(journal_folder: str) -> RecordLocks:
    """The process's locks for the run with that journal: there may be only one, for all its threads."""
    with _lock:
        return _locks.setdefault(journal_folder, RecordLocks(journal_folder))
