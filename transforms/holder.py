"""Who holds an output directory, without touching its lock: a look must not keep a run from starting."""

from __future__ import annotations

import os
import socket
from typing import Any, NamedTuple

from transforms import files
from transforms.store_lock import is_alive


class Holder(NamedTuple):
    """The process that the lock names. `alive` is None where that cannot be known from here: it is on another
    machine, or the lock does not say."""

    pid: int | None
    host: str | None
    alive: bool | None

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" if self.pid is not None else "its process"


def holder(output: str) -> Holder | None:
    """Who holds the lock of an output directory, None where there is none. A process that was killed leaves its
    lock's file behind, which then names one that is not alive."""
    try:
        value: Any = files.read_json(files.join(output, ".lock"))
        pid, host = int(value["pid"]), str(value["host"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):  # being written just now, or by another version
        return Holder(None, None, None)
    if not files.is_local(output):
        return Holder(pid, host, is_alive(value))
    if host != socket.gethostname():
        return Holder(pid, host, None)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return Holder(pid, host, False)
    except OSError:  # another user's
        pass
    return Holder(pid, host, True)
