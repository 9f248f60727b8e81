"""The one owner of retries: how often a row's request is made, and how long is waited in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from transforms.llm.completion import Completion
from transforms.llm.errors import CallError, Stopped, TransientError, unexpected
from transforms.llm.limits import Gate
from transforms.settings import Limits

FIRST_BACKOFF = 0.5  # seconds; doubles with each attempt
LONGEST_BACKOFF = 30.0  # seconds


class Called(NamedTuple):
    """An answer, the number of requests it took, and the milliseconds of the last of them."""

    completion: Completion
    attempts: int
    latency_ms: float


class Retries:
    """Makes a request up to limits.max_attempts times, exponential backoff with full jitter between them
    (aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter).

    What the server says about its load counts for all threads: on a 429, and on whatever comes with a
    Retry-After, the gate is paused, by Retry-After up to limits.max_retry_after_seconds, else by the backoff.
    One instance serves all threads of a process.
    """

    def __init__(self, limits: Limits, gate: Gate, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._gate = gate
        self._clock = clock
        self._longest_pause = limits.max_retry_after_seconds
        self._backoff = wait_random_exponential(multiplier=FIRST_BACKOFF, max=LONGEST_BACKOFF)
        # Shared by the threads: what tenacity notes about a call is in the call's own state and in
        # thread-locals.
        self._retrying = Retrying(
            retry=retry_if_exception_type(TransientError),
            stop=stop_after_attempt(limits.max_attempts),
            wait=self._wait,
            sleep=gate.sleep,
            reraise=True,
        )

    def call(self, request: Callable[[], Completion]) -> Called:
        """Make `request` until it succeeds. Raises the last CallError with its `attempts` set, or Stopped.

        Any other exception becomes a RowError bad_response: what is wrong with one row must not touch
        another.
        """
        attempts = 0

        def attempt() -> Called:
            nonlocal attempts
            self._gate.acquire()
            attempts += 1
            started = self._clock()
            completion = request()
            return Called(completion, attempts, (self._clock() - started) * 1000)

        try:
            return self._retrying(attempt)
        except Stopped:
            raise
        except CallError as error:
            error.attempts = attempts
            raise
        except Exception as error:
            failure = unexpected(error)
            failure.attempts = attempts
            raise failure from error

    def _wait(self, state: RetryCallState) -> float:
        """Seconds that only this row waits. tenacity asks after every failed attempt, the last one
        included."""
        backoff = self._backoff(state)
        error = state.outcome.exception() if state.outcome else None
        if not isinstance(error, TransientError):
            return backoff
        if error.retry_after:
            # Where the server asks for more than the longest pause, the attempt is made after that, not
            # earlier.
            self._gate.pause(min(error.retry_after, self._longest_pause))
        elif error.reason == "rate_limited":
            self._gate.pause(backoff)
        else:
            return backoff
        return 0.0
