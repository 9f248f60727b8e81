"""One run at a time in an output directory. On a store it is held otherwise: see store_lock.py.

The kernel holds the lock, so that it ends with its holder, however that ends; the file only says who it is.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from transforms import files
from transforms.records import utc


class Locked(Exception):
    """Another run holds the directory; the message says which."""


class LockLost(Exception):
    """Another run has taken the directory over while it was held."""


class Held(Protocol):
    """A lock that may be lost while it is held."""

    lost: str | None  # why it is held no more, None where it is

    def __enter__(self) -> Any:
        """Takes it. Raises Locked or OSError."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Lets it go."""

    def on_lost(self, tell: Callable[[str], None]) -> None:
        """Calls `tell` once it is lost."""

    def check(self) -> None:
        """Raises LockLost where it is lost."""


def lock(output: str, say: Callable[[str], None]) -> Held:
    """The lock of an output directory, by what that is on. `say` is told what there is to wait for."""
    if files.is_local(output):
        return Lock(output)
    from transforms.store_lock import StoreLock  # late: it needs this module

    return StoreLock(output, say)


def in_use(output: str, holder: Any) -> str:
    """The message of Locked; `holder` is what its file says."""
    try:
        who = f"process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (KeyError, TypeError):
        who = "another process"
    return f"{output} is in use by another run: {who}"


class Lock:
    """Holds an output directory from `with` to its end. Raises Locked, or OSError where nothing can be written."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._path = files.join(output, ".lock")
        self._descriptor: int | None = None

    def __enter__(self) -> Lock:
        files.make_folder(self._output)
        self._descriptor = self._hold()
        holder = json.dumps({"pid": os.getpid(), "host": socket.gethostname(), "since": utc(time.time())})
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, holder.encode(), 0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        files.remove([self._path])
        if self._descriptor is not None:
            os.close(self._descriptor)

    lost: str | None = None  # the kernel takes it from nobody

    def on_lost(self, tell: Callable[[str], None]) -> None:
        """It never is."""

    def check(self) -> None:
        """It is held."""

    def _hold(self) -> int:
        while True:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = os.pread(descriptor, 4096, 0)
                os.close(descriptor)
                raise Locked(self._message(text)) from None
            try:
                if os.path.samestat(os.fstat(descriptor), os.stat(self._path)):
                    return descriptor
            except FileNotFoundError:
                pass
            os.close(descriptor)  # its holder removed it between our open and our lock

    def _message(self, text: bytes) -> str:
        try:
            return in_use(self._output, json.loads(text))
        except ValueError:
            return in_use(self._output, None)
