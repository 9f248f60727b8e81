"""Whether an endpoint is worth a call while there are others."""

from __future__ import annotations

from math import inf

FAILURES = 5  # in a row: then it is out for a while
FIRST_OUTAGE = 15.0  # seconds; doubles while it goes on
LONGEST_OUTAGE = 300.0  # seconds


class Health:
    """Counts failures in a row, the circuit breaker of Nygard's Release It!. After an outage a single failure is
    enough for the next one. Times are of one monotonic clock, in seconds. Not for several threads at once.
    """

    def __init__(self) -> None:
        self.out_until = -inf  # inf: for the rest of the run
        self._failures = 0
        self._outages = 0

    def succeeded(self) -> None:
        """It answered."""
        self._failures = self._outages = 0

    def failed(self, now: float) -> bool:
        """It did not answer, or with a server's error. True if it goes out by that."""
        if now < self.out_until:
            return False  # a call from before it went out
        self._failures += 1
        if self._failures < FAILURES:
            return False
        self.out_until = now + min(LONGEST_OUTAGE, FIRST_OUTAGE * 2**self._outages)
        self._outages = min(self._outages + 1, 10)  # long past LONGEST_OUTAGE
        return True

    def refuse(self) -> None:
        """It refuses this account or this configuration, and will for the rest of the run."""
        self.out_until = inf
