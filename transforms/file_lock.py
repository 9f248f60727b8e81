"""One run at a time in an output directory of a local or shared file system.

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

from transforms import files
from transforms.held import Locked, in_use
from transforms.records import utc


class FileLock:
    """Holds an output directory from `with` to its end. Raises Locked, or OSError where nothing can be written."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._path = files.join(output, ".lock")
        self._descriptor: int | None = None

    def __enter__(self) -> FileLock:
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
