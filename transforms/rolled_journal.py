"""The journal on a store, where nothing can be appended to: outcomes come together and are saved as a new object.

One journal a process and run, whatever the number of spans that are worked on: an object holds what came together in
some seconds, or a number of rows, or until a bundle ends, and its name begins with the spans that are in it. So a
kill -9 costs the answers of the last seconds, and those of the save under way. No row is published without being
saved: a bundle ends, and hands on its rows, only after `save`.

Where a save takes long, or fails and is tried again, whoever appends has to wait: no more is paid for than could be
kept. Where it fails for a minute the run breaks.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from typing import NamedTuple, Protocol

from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random_exponential

from transforms import files
from transforms.journal import SPAN_SEPARATOR, SUFFIX, Entry, encode
from transforms.store import of

GRACE_SECONDS = 10.0  # that a save may take beyond the interval before those who append wait for it
RETRY_SECONDS = 60.0  # that a save is tried again for
MOST_SPANS = 32  # in one object: a key of S3 has up to 1,024 bytes
_MOST_OBJECTS = 10  # unsaved at once, before those who append wait


class RollRule(NamedTuple):
    """When outcomes become an object: so many rows, or so many seconds after the first of them."""

    rows: int = 1000
    seconds: float = 5.0


class Listener(Protocol):
    """Who works on a span."""

    def tell(self, digest: bytes) -> None:
        """Another one has an outcome for a record of the span."""


class RolledJournal:
    """The outcomes of one run in one process. Safe for threads. `on_failure` is told, by another thread, where the
    store has refused one for too long."""

    def __init__(self, folder: str, rule: RollRule, on_failure: Callable[[OSError], None] | None = None) -> None:
        self._folder = folder
        self._rule = rule
        self._on_failure = on_failure
        self._store = of(folder)
        self._changed = threading.Condition()
        self._waiting: list[tuple[str, bytes]] = []  # a span and a line each, in the order of their coming
        self._since = 0.0  # when the first of them came; of `_saving` in `_saving_since`
        self._saving_since: float | None = None
        self._appended = self._saved = self._wanted = 0  # lines: all, those in objects, those that someone waits for
        self._last: dict[str, int] = {}  # by span, the number of its last line that may be unsaved
        self._listeners: dict[str, weakref.WeakSet[Listener]] = {}  # by span
        self._error: OSError | None = None
        self._thread: threading.Thread | None = None
        self._closing = False
        self._users = 0
        _journals.add(self)

    def listen(self, span: str, listener: Listener) -> None:
        """Tells `listener`, as long as it lives, of each outcome of the span that another one appends."""
        with self._changed:
            self._listeners.setdefault(span, weakref.WeakSet()).add(listener)

    def append(self, span: str, entry: Entry, writer: Listener | None = None) -> None:
        """Takes an outcome. Raises OSError where the store has refused one for too long."""
        line = encode(entry)
        with self._changed:
            if not self._waiting:
                self._since = time.monotonic()
            self._waiting.append((span, line))
            self._appended += 1
            self._last[span] = number = self._appended
            for listener in self._listeners.get(span, ()):
                if listener is not writer:
                    listener.tell(entry.digest)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="journal", daemon=True)
                self._thread.start()
            if len(self._waiting) == 1 or len(self._waiting) >= self._rule.rows or len(self._last) >= MOST_SPANS:
                self._changed.notify_all()
            self._wait_for(number, only_if_late=True)

    def save(self, span: str | None = None) -> bool:
        """Waits until all that was appended so far, or all of one span, is saved. Returns whether anything was not.
        Raises OSError where that is not possible."""
        with self._changed:
            number = self._appended if span is None else self._last.get(span, 0)
            if self._saved >= number:
                return False
            self._wanted = max(self._wanted, number)
            self._changed.notify_all()
            self._wait_for(number)
            return True

    def close(self) -> None:
        """Saves what is left and ends the thread, where nobody else in the process uses it. What cannot be saved here
        is of bundles that broke, and is asked again: whoever waited for it was told."""
        with _lock:  # whoever opens it meanwhile waits, and finds all that was saved
            self._users -= 1
            if self._users > 0:
                return
            _open.pop(self._folder, None)
            with self._changed:
                self._closing = True
                self._changed.notify_all()
            if self._thread is not None:
                self._thread.join()

    def _wait_for(self, number: int, *, only_if_late: bool = False) -> None:
        while self._saved < number and self._error is None:
            if only_if_late and not self._is_late():
                return
            self._changed.wait(1.0)
        if self._error is not None:
            raise OSError(self._error.errno, self._error.strerror or str(self._error), self._error.filename)

    def _is_late(self) -> bool:
        since = self._since if self._saving_since is None else self._saving_since
        late = time.monotonic() - since > self._rule.seconds + GRACE_SECONDS
        return late or self._appended - self._saved > _MOST_OBJECTS * self._rule.rows

    def _run(self) -> None:
        while batch := self._next():
            try:
                self._write(batch)
            except OSError as error:
                logging.getLogger(__name__).error("the journal cannot be saved", exc_info=True)
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                if self._on_failure is not None:
                    self._on_failure(error)
                return
            with self._changed:
                self._saved += len(batch)
                self._saving_since = None
                self._last = {span: number for span, number in self._last.items() if number > self._saved}
                self._changed.notify_all()

    def _next(self) -> list[tuple[str, bytes]]:
        """Waits for the next object to be due and takes its lines. Empty at the end."""
        with self._changed:
            while not self._is_due():
                if self._closing:
                    return []
                left = self._since + self._rule.seconds - time.monotonic() if self._waiting else None
                self._changed.wait(left)
            spans: set[str] = set()
            count = 0
            for span, _line in self._waiting:
                spans.add(span)
                if len(spans) > MOST_SPANS:
                    break
                count += 1
            batch, self._waiting = self._waiting[:count], self._waiting[count:]
            self._saving_since = self._since
            return batch

    def _is_due(self) -> bool:
        if not self._waiting:
            return False
        if self._closing or self._wanted > self._saved or len(self._waiting) >= self._rule.rows:
            return True
        return len(self._last) >= MOST_SPANS or time.monotonic() - self._since >= self._rule.seconds

    def _write(self, batch: list[tuple[str, bytes]]) -> None:
        spans = sorted({span for span, _line in batch})
        # One name for all tries: a save that seemed to fail and did not is then replaced by itself.
        path = files.join(self._folder, f"{SPAN_SEPARATOR.join(spans)}-{uuid.uuid4().hex[:12]}{SUFFIX}")
        data = b"".join(line for _span, line in batch)
        Retrying(
            retry=retry_if_exception_type(OSError),
            stop=stop_after_delay(RETRY_SECONDS),
            wait=wait_random_exponential(multiplier=0.5, max=10),
            reraise=True,
        )(self._store.put, path, data)


_lock = threading.Lock()
_open: dict[str, RolledJournal] = {}  # by folder


def of_run(folder: str, rule: RollRule, on_failure: Callable[[OSError], None] | None = None) -> RolledJournal:
    """The process's journal in that folder, made where it is the first to ask. Each needs a close."""
    with _lock:
        journal = _open.get(folder)
        if journal is None:
            journal = _open[folder] = RolledJournal(folder, rule, on_failure)
        journal._users += 1
        return journal


_journals: weakref.WeakSet[RolledJournal] = weakref.WeakSet()


def save_all() -> None:
    """Saves what the process holds, of all runs, for a process that is about to end at once."""
    for journal in list(_journals):
        try:
            journal.save()
        except OSError:
            continue
