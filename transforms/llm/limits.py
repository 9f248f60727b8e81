"""When a request may start: requests per minute and pauses, for all threads of one worker process."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from transforms.llm.errors import Stopped

_MINUTE = 60.0
_SPREAD = 0.1  # of a pause: over how much time the threads wake, so that they do not all call at once
_LONGEST_SPREAD = 1.0  # seconds


class Gate:
    """Lets requests start, at most `requests_per_minute` x `headroom` in any 60 seconds (None: no limit).

    A token bucket in the form of GCRA (ITU-T I.371: the virtual scheduling algorithm): each request reserves
    the next free time, so that threads take turns without a queue. About a second's worth may start at once;
    the pace is lowered by so much that a minute which begins with such a burst is still within the limit.

    `stop` set: all that wait raise Stopped at once, and so does whoever comes later. `clock` is in seconds
    and monotonic.
    """

    def __init__(
        self,
        requests_per_minute: float | None,
        headroom: float,
        *,
        stop: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stop = stop
        self._clock = clock
        self._lock = threading.Lock()
        self._interval = 0.0  # seconds between two requests
        self._tolerance = 0.0  # seconds by which a request may come before its time: the burst
        if requests_per_minute is not None:
            limit = requests_per_minute * headroom
            burst = max(1, int(limit / _MINUTE))
            self._interval = _MINUTE / (limit - burst + 1)
            self._tolerance = (burst - 1) * self._interval
        self._next = float("-inf")  # the time at which the next request is due
        self._next_of_started = float("-inf")  # the same, without those that still wait for their time
        self._paused_until = float("-inf")
        self._pauses = 0
        self._spread = 0.0
        self._slept = 0.0

    @property
    def slept(self) -> float:
        """Seconds that threads have waited here on purpose, added up over all of them."""
        return self._slept

    def acquire(self) -> None:
        """Return when a request may start. Raises Stopped."""
        while True:
            if self._stop.is_set():
                raise Stopped()
            if not self._interval and not self._spread:  # the usual case, kept to a few lookups
                return
            if self._wait_for_pause():
                continue
            due, pauses = self._reserve()
            while (wait := due - self._tolerance - self._clock()) > 0:
                self.sleep(wait)
            if self._start(due, pauses):
                return

    def pause(self, seconds: float) -> None:
        """Let no request of this process start for `seconds` from now. A longer pause that is on stays as it
        is."""
        if seconds <= 0:
            return
        with self._lock:
            self._paused_until = max(self._paused_until, self._clock() + seconds)
            self._spread = max(self._spread, min(_LONGEST_SPREAD, seconds * _SPREAD))
            # Reservations are void: were they kept, all whose time passes meanwhile would start together at
            # the end.
            self._pauses += 1
            self._next = self._next_of_started

    def sleep(self, seconds: float) -> None:
        """Wait, on purpose. Raises Stopped as soon as the run is being stopped."""
        before = self._clock()
        stopped = self._stop.wait(seconds)
        with self._lock:
            self._slept += self._clock() - before
        if stopped:
            raise Stopped()

    def _wait_for_pause(self) -> bool:
        """Wait for the pause that is on, if one is. True: look again, it may have been made longer."""
        wait = self._paused_until - self._clock()
        if wait > 0:
            self.sleep(wait + random.uniform(0, self._spread))
            return True
        if self._spread:
            with self._lock:  # over: back to the short path, unless another pause has begun
                if self._paused_until <= self._clock():
                    self._spread = 0.0
        return False

    def _reserve(self) -> tuple[float, int]:
        """The time at which the next request is due, and under which pause it was reserved."""
        with self._lock:
            due = max(self._next, self._clock())
            self._next = due + self._interval
            return due, self._pauses

    def _start(self, due: float, pauses: int) -> bool:
        """Whether the reservation still holds."""
        with self._lock:
            if pauses != self._pauses:
                return False
            self._next_of_started = max(self._next_of_started, due + self._interval)
            return True
