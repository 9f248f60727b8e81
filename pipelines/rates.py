"""How fast a run is, over its last seconds."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from transforms.watch import Progress

_WINDOW_SECONDS = 15.0


class Speed(NamedTuple):
    """Rows with an outcome, calls and tokens, each a second."""

    rows: float = 0.0
    calls: float = 0.0
    tokens: float = 0.0


class Rates:
    """Takes samples of a run's progress. The first one is the start: what there is by then came before."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, int, int]] = deque()

    def add(self, now: float, progress: Progress) -> Speed | None:
        """Takes a sample at `now`, in seconds of a monotonic clock; returns the speed, None for a first look."""
        if progress.done == progress.calls == 0:
            self._samples.clear()  # reading the input is no part of it
        self._samples.append((now, progress.done, progress.calls, progress.tokens))
        while len(self._samples) > 2 and now - self._samples[0][0] > _WINDOW_SECONDS:
            self._samples.popleft()
        start, done, calls, tokens = self._samples[0]
        seconds = now - start
        if seconds <= 0:
            return None
        grown = (progress.done - done, progress.calls - calls, progress.tokens - tokens)
        return Speed(*(amount / seconds for amount in grown))
