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
from transforms.llm.endpoint import LiveEndpoint
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import CallError, FormatRefused, Stopped, TransientError, unexpected
from transforms.llm.notes import LIMITS_DIVIDED
from transforms.llm.prompt import Prompt
from transforms.settings import Limits

FIRST_BACKOFF = 0.5  # seconds; doubles with each attempt
LONGEST_BACKOFF = 30.0  # seconds
_FORMATS = 2  # changes of the way in which an endpoint is asked for JSON (see structured_output.py)


class Called(NamedTuple):
    """An answer, the number of requests it took, and the milliseconds of the last of them. `maybe_billed` counts
    those that failed after the endpoint may have made an answer, and may charge for it."""

    completion: Completion
    attempts: int
    latency_ms: float
    maybe_billed: int = 0


class Retries:
    """Makes a request up to limits.max_attempts times, over all endpoints, with exponential backoff and full jitter
    between them (aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter).

    What an endpoint says about its load counts for all threads: on a 429, and on whatever comes with a Retry-After,
    its gate pauses (see gate.py) and the row does not wait on its own as well. One instance serves all threads of a
    process.
    """

    def __init__(self, limits: Limits, endpoints: Endpoints, *, clock: Callable[[], float] = time.perf_counter) -> None:
        self._endpoints = endpoints
        self._clock = clock
        self._backoff = wait_random_exponential(multiplier=FIRST_BACKOFF, max=LONGEST_BACKOFF)
        # Shared by the threads: what tenacity notes about a call is in the call's own state and in
        # thread-locals.
        self._retrying = Retrying(
            retry=retry_if_exception_type(TransientError),
            stop=stop_after_attempt(limits.max_attempts),
            wait=self._wait,
            sleep=endpoints.sleep,
            reraise=True,
        )

    def call(self, prompt: Prompt) -> Called:
        """Make the request until it succeeds. Raises the last CallError with its `attempts` and `maybe_billed` set,
        or Stopped.

        Any other exception becomes a RowError bad_response: what is wrong with one row must not touch
        another. Requests that an endpoint refuses for the account's sake, while another is left, and those that are
        refused for how they ask for JSON, are counted in `attempts` but are none of max_attempts.
        """
        request = _Request(self._endpoints, self._clock, prompt)
        try:
            return self._retrying(request)
        except Stopped:
            raise
        except Exception as error:
            failure = error if isinstance(error, CallError) else unexpected(error)
            failure.attempts, failure.maybe_billed = request.attempts, request.maybe_billed
            if failure is error:
                raise
            raise failure from error

    def _wait(self, state: RetryCallState) -> float:
        """Seconds that only this row waits. tenacity asks after every failed attempt, the last one
        included."""
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, TransientError) and (error.retry_after or error.reason == "rate_limited"):
            return 0.0
        return self._backoff(state)


class _Request:
    """One row's request, to be called until it succeeds; what its attempts add up to."""

    def __init__(self, endpoints: Endpoints, clock: Callable[[], float], prompt: Prompt) -> None:
        self.attempts = 0
        self.maybe_billed = 0
        self._endpoints = endpoints
        self._clock = clock
        self._prompt = prompt
        self._failed_at: LiveEndpoint | None = None
        self._elsewhere = False  # the last endpoint is out, and another may answer

    def __call__(self) -> Called:
        formats = _FORMATS * len(self._endpoints)
        while True:
            outcome = self._once()
            if isinstance(outcome, Called):
                return outcome
            if isinstance(outcome, FormatRefused) and formats:
                formats -= 1
            elif not self._elsewhere:  # else there is one endpoint less each time
                raise outcome

    def _once(self) -> Called | CallError:
        lease = self._endpoints.acquire(self._prompt.characters, self._failed_at)
        outcome: Completion | CallError | None = None
        self.attempts += 1
        started = self._clock()
        try:
            outcome = lease.client.complete(self._prompt)
        except CallError as error:
            outcome = error
        finally:
            self._elsewhere = lease.release(outcome)
        if isinstance(outcome, Completion):
            if lease.divided:
                outcome = outcome._replace(notes=(*outcome.notes, LIMITS_DIVIDED))
            return Called(outcome, self.attempts, (self._clock() - started) * 1000, self.maybe_billed)
        self.maybe_billed += outcome.maybe_billed
        if not isinstance(outcome, FormatRefused):
            self._failed_at = lease.endpoint
        return outcome
