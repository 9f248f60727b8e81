"""Ctrl-C and what else asks a process to end: at first softly, the second time at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from pipelines import children
from pipelines.terminal import say

EXIT_CODE = 130
LAST_SECONDS = 10.0  # that what is not kept yet may take at the second signal


def signals() -> list[signal.Signals]:
    """Those that ask this process to end. The terminal's hang-up is none where it was started with nohup."""
    asked = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        asked.append(signal.SIGHUP)
    return asked


@contextmanager
def raised() -> Iterator[None]:
    """All of these signals raise KeyboardInterrupt inside the block, so that what it holds is given back."""
    with _handled(_raise):
        yield


class Interrupts:
    """While `handled`, the first signal stops the run: `stop` is called with its name. The second one ends the process
    and those that it has started at once, after `save`, which keeps the answers that are in no journal yet: nothing
    else is worth waiting for. Both are called by threads: the one that a signal comes to may hold any lock."""

    def __init__(self, stop: Callable[[str], None], save: Callable[[], None] = lambda: None) -> None:
        self._stop = stop
        self._save = save
        self._stopping: threading.Thread | None = None
        self._ending = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Takes the signals until the block ends."""
        with _handled(self._handle):
            yield

    def came(self) -> bool:
        """Whether there was a signal, of which the run knows by then."""
        if self._stopping is None:
            return False
        self._stopping.join()
        return True

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self._stopping is None:
            # Known before anything else is done: the second signal may come in the middle of this.
            self._stopping = threading.Thread(target=self._stop, args=(signal.Signals(number).name,), daemon=True)
            say("\nstopping: calls under way are finished and kept (once more: at once)", error=True)
            self._stopping.start()
        elif not self._ending:
            self._ending = True
            threading.Thread(target=self._save_and_end, daemon=True).start()
            timer = threading.Timer(LAST_SECONDS, _end)
            timer.daemon = True
            timer.start()

    def _save_and_end(self) -> None:
        try:
            self._save()
        finally:
            _end()


@contextmanager
def _handled(handler: Any) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in signals()}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)


def _end() -> None:
    children.end_all()
    os._exit(EXIT_CODE)


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
