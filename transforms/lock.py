"""One run at a time in an output directory: which lock that is."""

from __future__ import annotations

from collections.abc import Callable

from transforms import files
from transforms.file_lock import FileLock
from transforms.held import Held
from transforms.store_lock import StoreLock


def lock(output: str, say: Callable[[str], None]) -> Held:
    """The lock of an output directory, by what that is on. `say` is told what there is to wait for."""
    if files.is_local(output):
        return FileLock(output)
    return StoreLock(output, say)
