"""Why a call gave no usable answer.

    Exception
    ├── CallError
    │   ├── RowError        the row's fault: a dead letter, final until the row or the task changes
    │   ├── TransientError  for now: tried again; at last a dead letter that a later run tries again
    │   ├── AccountError    the account's or the configuration's: stops the run, the row stays undone
    │   └── FormatRefused   the endpoint does not take our way to ask for JSON: asked at once in another way
    └── Stopped             the run is being stopped: the row stays undone

Which of them an error is follows from a status, a code or an exception's class, never from words in a
message; the one protocol that leaves no choice is commented where it is read (anthropic_errors.py).
"""

from __future__ import annotations

from typing import ClassVar, Literal

from transforms.llm.completion import Completion, Usage
from transforms.llm.rate_headers import RateHeaders
from transforms.llm.text import excerpt

RowReason = Literal[
    "request_too_large",
    "bad_request",
    "content_filter",
    "refusal",
    "truncated",
    "empty_output",
    "no_text",
    "invalid_json",
    "schema_mismatch",
    "bad_response",
]
TransientReason = Literal["bad_response", "rate_limited", "timeout", "transport", "upstream_error"]
AccountReason = Literal["auth", "quota_exhausted", "config_rejected", "endpoint_down"]


class CallError(Exception):
    """Base of the kinds above; raise one of those.

    `message` is one line of at most 500 characters without secrets. `http_status` is that of the response,
    None if there was none. `retry_after` is the pause that the server asked for, in seconds, not yet capped.
    `completion` is an answer that was billed but cannot be used, the last one if there were several.
    `maybe_billed`: 1 where there is no answer, but the endpoint may have made one and charge for it. `rate` is
    what the response told of the account's limits.

    What concerns the row as a whole is set by those who know: `attempts`, the requests made for it, and
    `maybe_billed`, how many of those that was so for; `completions`, how many were answered and billed; `usage`
    and `cost_usd`, the sums over those (with none of them nothing is known); `notes`, see notes.py; `account`, the
    error that kept the row from being asked again, and that stops the run.
    """

    retryable: ClassVar[bool] = False

    def __init__(
        self,
        reason: str,
        message: str,
        *,
        http_status: int | None = None,
        retry_after: float | None = None,
        completion: Completion | None = None,
        maybe_billed: int = 0,
    ) -> None:
        self.reason = reason
        self.message = excerpt(message)
        self.http_status = http_status
        self.retry_after = retry_after
        self.completion = completion
        self.maybe_billed = maybe_billed
        self.rate: RateHeaders | None = None
        self.attempts = 0
        self.completions = 0
        self.usage = Usage()
        self.cost_usd: float | None = None
        self.notes: tuple[str, ...] = ()
        self.account: AccountError | None = None
        super().__init__(reason, self.message)

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


class RowError(CallError):
    """This row gets no usable answer, and asking again would not change that."""

    def __init__(
        self,
        reason: RowReason,
        message: str,
        *,
        http_status: int | None = None,
        completion: Completion | None = None,
    ) -> None:
        super().__init__(reason, message, http_status=http_status, completion=completion)


class TransientError(CallError):
    """No answer this time; the same request may succeed later."""

    retryable = True

    def __init__(
        self,
        reason: TransientReason,
        message: str,
        *,
        http_status: int | None = None,
        retry_after: float | None = None,
        maybe_billed: int = 0,
    ) -> None:
        super().__init__(reason, message, http_status=http_status, retry_after=retry_after, maybe_billed=maybe_billed)


class AccountError(CallError):
    """No row would get an answer: bad key, no money, a configuration that the endpoint refuses, or an endpoint
    from which rows in a row got nothing (`endpoint_down`, see breaker.py)."""

    def __init__(self, reason: AccountReason, message: str, *, http_status: int | None = None) -> None:
        super().__init__(reason, message, http_status=http_status)


class FormatRefused(CallError):
    """The endpoint refused the way in which JSON was asked for, and its client has chosen another (see
    structured_output.py): the same request is to be made again, which an endpoint asks for twice at most."""

    def __init__(self, message: str, *, http_status: int | None = None) -> None:
        super().__init__("format_refused", message, http_status=http_status)


class Stopped(Exception):
    """The run is being stopped, so this row's call was not made or not repeated."""


def unexpected(error: Exception) -> RowError:
    """The RowError for an exception that nobody foresaw: what is wrong with one row must not touch
    another."""
    return RowError("bad_response", f"unexpected {type(error).__name__}: {error}")
