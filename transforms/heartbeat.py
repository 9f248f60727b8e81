"""What a worker process is doing just now, on disk, where any other process or machine can look.

    journal/<run_id>/worker-<id>.json

Written every few seconds while there are calls to make, whole or not at all, and once more when the process is done
with them. That it cannot be written never hurts the run.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple

from transforms import files
from transforms.journal import HEADER_FILE
from transforms.llm.endpoints import Counts
from transforms.records import utc

BEAT_SECONDS = 2.0
_SILENT_BEATS = 4  # that are left out before a worker counts as done
_FAR_SECONDS = 10.0  # where each write is a request that somebody charges for
_FRESH_SECONDS = 60.0  # by clocks that may differ a little; a process that waits long for an answer beats all the same
_PREFIX, _SUFFIX = "worker-", ".json"


class Beat(NamedTuple):
    """One worker process. `calls` are the requests it has made, `rate_limited` those that were answered with a 429,
    `slept_seconds` what its threads have waited on purpose, `seconds` how long it has been at it; `time` is its own
    clock's. `closed`: it makes no more calls."""

    host: str
    pid: int
    time: str
    seconds: float
    calls: int
    in_flight: int
    max_in_flight: int
    rate_limited: int
    slept_seconds: float
    closed: bool


class Heartbeat:
    """Writes the Beat of this process into a run's journal folder. `count` says what its endpoints count."""

    def __init__(self, folder: str, count: Callable[[], Counts], *, max_in_flight: int) -> None:
        self._folder = folder
        self._path = files.join(folder, f"{_PREFIX}{uuid.uuid4().hex[:12]}{_SUFFIX}")
        self._count = count
        self._max_in_flight = max_in_flight
        self._every = beat_seconds(folder)
        self._began = time.monotonic()
        self._working = 0  # threads that are at a record
        self._counting = threading.Lock()
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    @contextmanager
    def working(self) -> Iterator[None]:
        """Around the work on one record."""
        with self._counting:
            self._working += 1
        try:
            yield
        finally:
            with self._counting:
                self._working -= 1

    def settle(self) -> None:
        """Returns when nothing is being written, nor will be as long as no record is at work: the folder may go."""
        with self._writing:
            pass

    def close(self) -> None:
        """The last beat."""
        self._ended.set()
        self._thread.join()
        with self._writing:
            self._write(closed=True)

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            with self._writing:
                if self._working:
                    self._write(closed=False)

    def _write(self, *, closed: bool) -> None:
        counts = self._count()
        beat = Beat(
            host=socket.gethostname(),
            pid=os.getpid(),
            time=utc(time.time()),
            seconds=round(time.monotonic() - self._began, 3),
            calls=counts.calls,
            in_flight=counts.in_flight,
            max_in_flight=self._max_in_flight,
            rate_limited=counts.rate_limited,
            slept_seconds=round(counts.slept, 3),
            closed=closed,
        )
        with contextlib.suppress(Exception):
            self._put(beat._asdict())

    def _put(self, value: dict[str, Any]) -> None:
        # Else the run is published. Where there are folders, the missing one says so.
        if files.is_local(self._folder) or files.exists(files.join(self._folder, HEADER_FILE)):
            files.put_json(self._path, value)


def beat_seconds(folder: str) -> float:
    """How often there is a beat, by where it is written to."""
    return BEAT_SECONDS if files.is_local(folder) else _FAR_SECONDS


def beat_files(folder: str) -> list[str]:
    """The files with beats in a run's journal folder."""
    found = (info.path for info in files.listing(folder))
    return [path for path in found if files.name(path).startswith(_PREFIX) and path.endswith(_SUFFIX)]


def alive(folder: str) -> int:
    """The processes that make calls for a run just now, by the beats in its journal folder."""
    since = utc(time.time() - _FRESH_SECONDS)
    return len({(beat.host, beat.pid) for beat in _beats(folder) if beat.time >= since and not beat.closed})


def others(folder: str) -> int:
    """The processes that have made calls for a run so far, but this one, by the beats in its journal folder."""
    return len({(beat.host, beat.pid) for beat in _beats(folder)} - {(socket.gethostname(), os.getpid())})


def _beats(folder: str) -> list[Beat]:
    """The beats in a run's journal folder, none where it cannot be read."""
    try:
        return [beat for path in beat_files(folder) if (beat := read_beat(path)) is not None]
    except OSError:
        return []


def read_beat(path: str) -> Beat | None:
    """The beat in a file, None where it cannot be read."""
    try:
        return Beat(**files.read_json(path))
    except (OSError, ValueError, TypeError):
        return None


def age_seconds(beat: Beat) -> float:
    """Seconds since a sign of life, by two clocks that may differ."""
    try:
        return max(0.0, time.time() - datetime.fromisoformat(beat.time.replace("Z", "+00:00")).timestamp())
    except ValueError:
        return 0.0


class WorkersAtWork:
    """Tells which workers of a run are making calls, by their signs of life. `clock` is monotonic, in seconds."""

    def __init__(self, folder: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder = folder
        self._clock = clock
        self._silent = _SILENT_BEATS * beat_seconds(folder)
        self._seen: dict[str, tuple[Beat, float]] = {}  # the last beat of each, and when it was new

    def look(self) -> list[Beat]:
        """Those that are at it now, as far as it can be known. A process of this machine that has gone is not."""
        now = self._clock()
        for path in beat_files(self._folder):
            beat = read_beat(path)
            known = self._seen.get(path)
            if beat is not None and (known is None or known[0] != beat):
                self._seen[path] = beat, now if known else now - age_seconds(beat)
        return [
            beat
            for beat, since in self._seen.values()
            if not beat.closed and now - since < self._silent and not _has_gone(beat)
        ]

    @property
    def beats(self) -> list[Beat]:
        """The last beat of each that any look has found, also of those that are done or gone."""
        return [beat for beat, _since in self._seen.values()]

    @property
    def latest(self) -> float | None:
        """When, by the clock, the newest of these was new. None where there is none."""
        return max((since for _beat, since in self._seen.values()), default=None)


def _has_gone(beat: Beat) -> bool:
    if beat.host != socket.gethostname():
        return False
    try:
        os.kill(beat.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # somebody else's
        pass
    return False
