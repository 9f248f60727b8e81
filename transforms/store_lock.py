"""One run at a time in an output on a store, where no kernel knows who is alive.

The lock is an object that its holder writes anew every few seconds. A newcomer who finds one watches it: where it
changes, its holder is alive; where it does not for STALE_SECONDS, it is taken over. No clock but the newcomer's own
counts. Where the holder ran on the same machine and is gone, there is nothing to wait for.

Beam's stores have no write on condition. Whoever takes the lock writes it, waits, and reads it again: of several at
once the last one stays. One that stands still for longer than SETTLE_SECONDS between looking and writing can take a
lock from its new holder all the same; that one finds out with its next beat, makes no more calls and publishes nothing.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from transforms import files
from transforms.held import Locked, LockLost, in_use
from transforms.records import utc

BEAT_SECONDS = 10.0
STALE_SECONDS = 60.0
SETTLE_SECONDS = 1.5
_POLL_SECONDS = 2.0


class StoreLock:
    """Holds an output from `with` to its end. Raises Locked, or OSError where the store refuses. `say` is told where
    there is something to wait for."""

    def __init__(self, output: str, say: Callable[[str], None]) -> None:
        self._output = output
        self._path = files.join(output, ".lock")
        self._say = say
        self._holder: dict[str, Any] = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": utc(time.time()),
            "token": uuid.uuid4().hex,
            **_this_process(),
        }
        self._beats = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="lock", daemon=True)
        self._guard = threading.Lock()
        self.lost: str | None = None
        self._on_lost: Callable[[str], None] | None = None

    def __enter__(self) -> StoreLock:
        found = self._read()
        if found is not None and is_alive(found) is not False:
            self._watch(found)
        self._write()
        time.sleep(SETTLE_SECONDS)
        found = self._read()
        if not self._is_ours(found):
            raise Locked(in_use(self._output, found))
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        try:
            if self.lost is None and self._is_ours(self._read()):
                files.remove([self._path])
        except OSError:  # it is stale soon
            pass

    def on_lost(self, tell: Callable[[str], None]) -> None:
        """Calls `tell` with a line for people once the lock is lost, from another thread; at once if it is."""
        with self._guard:
            self._on_lost = tell
            lost = self.lost
        if lost is not None:
            tell(lost)

    def check(self) -> None:
        """Raises LockLost where another run has taken the output over."""
        if self.lost is not None:
            raise LockLost(self.lost)

    def _watch(self, found: dict[str, Any]) -> None:
        """Returns once the lock is stale or gone. Raises Locked where its holder is alive."""
        self._say(
            f"{in_use(self._output, found)}; watching for up to {STALE_SECONDS:.0f} s whether that is still alive"
        )
        end = time.monotonic() + STALE_SECONDS
        while time.monotonic() < end:
            time.sleep(min(_POLL_SECONDS, BEAT_SECONDS))
            now = self._read()
            if now is None:
                return
            if now != found:
                raise Locked(in_use(self._output, now))

    def _beat(self) -> None:
        seen = time.monotonic()
        while self.lost is None and not self._ended.wait(BEAT_SECONDS):
            try:
                found = self._read()
                if self._is_ours(found):
                    self._write()
                    seen = time.monotonic()
                else:
                    self._lose(f"{in_use(self._output, found)}, which has taken it over")
            except OSError as error:
                if time.monotonic() - seen > STALE_SECONDS - 2 * BEAT_SECONDS:
                    self._lose(f"the lock of {self._output} cannot be kept: {error.strerror or error}")

    def _lose(self, message: str) -> None:
        with self._guard:
            self.lost = message
            tell = self._on_lost
        if tell is not None:
            tell(message)

    def _read(self) -> dict[str, Any] | None:
        try:
            value = files.read_json(self._path)
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}

    def _write(self) -> None:
        self._beats += 1
        files.write_json(self._path, {**self._holder, "beat": self._beats})

    def _is_ours(self, found: dict[str, Any] | None) -> bool:
        return found is not None and found.get("token") == self._holder["token"]


def _this_process() -> dict[str, str]:
    """What tells this process from all others, also from a later one with its number: empty where that is unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return {"machine": f"{boot} {os.readlink('/proc/self/ns/pid')}", "started": _started(os.getpid())}
    except OSError:
        return {}


def _started(pid: int) -> str:
    """When a process began, in ticks since the machine did. Raises OSError where there is no such process."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()[19]


def is_alive(holder: dict[str, Any]) -> bool | None:
    """Whether a holder, a process of this very machine, is still there. None where that is not known from here."""
    mine = _this_process()
    if not mine or holder.get("machine") != mine["machine"]:
        return None
    try:
        return _started(int(holder["pid"])) == holder.get("started")
    except OSError:
        return False
    except (KeyError, TypeError, ValueError):
        return None
