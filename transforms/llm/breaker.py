"""When rows fail one after the other: the fault is not theirs, and going on would make failures of all of them."""

from __future__ import annotations

import threading

from transforms.llm.errors import AccountError, CallError

# Nothing came from the endpoint that was its answer to this row. A 429 says that it works; it slows the run down.
_DOWN = frozenset({"bad_response", "transport", "timeout", "upstream_error"})


class Breaker:
    """Counts rows of a process that end without an answer in a row, and stops the run at `most`.

    Rows that end in one of the four ways of an endpoint that is down, with not one answer in between, stop it as
    `endpoint_down`. So do, as `config_rejected`, rows that are all refused as `bad_request` before the first
    answer: which of the two it is that such an endpoint refuses, the rows or the configuration, it does not say.
    Safe for threads.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._answered = False
        self._down = 0
        self._refused = 0
        self._lock = threading.Lock()

    def answered(self) -> None:
        """A row got an answer, usable or not."""
        self._answered = True
        self._down = self._refused = 0

    def failed(self, error: CallError) -> CallError:
        """A row got none: what to raise for it, `error` or the one that stops the run."""
        with self._lock:
            if error.reason in _DOWN:
                self._down += 1
            elif error.reason == "bad_request":
                self._down = 0  # it does answer
                self._refused += not self._answered
            if self._down >= self._most:
                return self._stop("endpoint_down", self._down, "got no answer", error)
            if self._refused >= self._most:
                return self._stop("config_rejected", self._refused, "were refused, and none was answered", error)
        return error

    def _stop(self, reason: str, rows: int, what: str, last: CallError) -> AccountError:
        message = f"{rows} rows in a row {what}; the last: {last}"
        return AccountError(reason, message, http_status=last.http_status)  # type: ignore[arg-type]
