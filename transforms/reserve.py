"""Room on the disk for the answers that are under way when it fills up.

    journal/<run_id>/reserve-<id>

Each worker process keeps one file that holds nothing. When the journal is refused a line for want of space, a piece
of it is given back, so that each answer that is already paid for can still be written. From the first such refusal
on no call starts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import uuid
from collections.abc import Callable

from transforms import files

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PREFIX = "reserve-"
_BYTES_PER_CALL = 16 << 10
_LEAST, _MOST = 256 << 10, 16 << 20  # bytes
_PIECES = 16
_BLOCK = 1 << 16  # bytes


class Reserve:
    """The reserve of one process, for `calls` under way at once. Safe for threads.

    Raises OSError, naming the folder, where there is no room for it. Where a journal is no local file there is
    nothing to reserve. `on_full` is called before the first piece is given back.
    """

    def __init__(self, folder: str, calls: int, on_full: Callable[[], None]) -> None:
        self._folder = folder
        self._on_full = on_full
        self._lock = threading.Lock()
        self._size = 0
        self._path = files.join(folder, f"{_PREFIX}{uuid.uuid4().hex[:12]}")
        self.error: OSError | None = None  # that the disk is full, once it is
        if files.is_local(folder):
            size = min(_MOST, max(_LEAST, calls * _BYTES_PER_CALL))
            self._piece = size // _PIECES
            self._fill(size)

    def give(self, error: OSError) -> bool:
        """Gives back a piece, if `error` says that the disk is full. False where it does not, or nothing is left."""
        if error.errno not in FULL:
            return False
        with self._lock:
            if self.error is None:
                self.error = OSError(error.errno, error.strerror, self._folder)
                self._on_full()
            if self._size == 0:
                return False
            # By pieces: whoever else writes to this disk takes what is free, too.
            self._size = max(0, self._size - self._piece)
            try:
                if self._size:
                    os.truncate(self._path, self._size)
                else:
                    os.remove(self._path)
            except OSError:
                self._size = 0
                return False
            return True

    def close(self) -> None:
        """Removes what is left of it."""
        with self._lock, contextlib.suppress(OSError):
            if self._size:
                self._size = 0
                os.remove(self._path)

    def _fill(self, size: int) -> None:
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            try:
                _allocate(descriptor, size)
            finally:
                os.close(descriptor)
        except FileNotFoundError:  # an engine repeats a run that is published: there are no calls to make
            return
        except OSError as error:
            with contextlib.suppress(OSError):
                os.remove(self._path)
            raise OSError(error.errno, error.strerror, self._folder) from None
        self._size = size


def _allocate(descriptor: int, size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(descriptor, 0, size)
            return
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                raise
    written = 0
    while written < size:
        written += os.write(descriptor, bytes(min(_BLOCK, size - written)))


def remove_left(folder: str) -> None:
    """Removes the reserves that processes of a run which is over have left behind."""
    if files.is_local(folder):
        files.remove(info.path for info in files.listing(folder) if files.name(info.path).startswith(_PREFIX))
