"""From an exception of requests or urllib3 to the kind of error it is: no response, or only a part of one."""

from __future__ import annotations

from ssl import SSLCertVerificationError

import requests
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ReadTimeoutError

from transforms.llm.errors import AccountError, CallError, TransientError

_UNSENT = (ConnectTimeoutError, NewConnectionError)  # no connection, so nothing to charge for


def transport_error(error: Exception) -> CallError:
    """TransientError timeout or transport; AccountError config_rejected for a certificate that does not hold
    and for a URL or proxy that cannot be used, as no row would get through."""
    causes = _causes(error)
    sent = int(not any(isinstance(cause, _UNSENT) for cause in causes))
    # A time-out in the middle of a body comes as a ConnectionError around urllib3's own class.
    if isinstance(error, requests.Timeout) or any(isinstance(cause, ReadTimeoutError) for cause in causes):
        return TransientError("timeout", _message(causes), maybe_billed=sent)
    unusable = isinstance(error, ValueError)  # what requests raises about URLs and proxies
    if unusable or any(isinstance(cause, SSLCertVerificationError) for cause in causes):
        return AccountError("config_rejected", _message(causes))
    return TransientError("transport", _message(causes), maybe_billed=sent)


def _message(causes: list[BaseException]) -> str:
    """The first cause, which says what happened, e.g. "ConnectionResetError: [Errno 104] ..."."""
    first = causes[-1]
    return f"{type(first).__name__}: {first}"


def _causes(error: BaseException) -> list[BaseException]:
    """`error`, what it was raised from, and so on to the first."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    return causes
