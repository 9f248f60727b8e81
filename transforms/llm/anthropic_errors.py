"""From an error of Anthropic's to the kind of error it is.

Source: docs.claude.com/en/api/errors: `{"type": "error", "error": {"type", "message"}}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transforms.llm import openai_errors
from transforms.llm.errors import AccountError, CallError, RowError
from transforms.llm.openai_errors import transient
from transforms.llm.transport import Response

# The status that stands for a type, wherever the type comes in: in a 200 as well, or with a proxy's own status.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_NO_CREDIT = "credit balance is too low"


def http_error(response: Response) -> CallError:
    """The error of a response with a status of 300 and up."""
    error = _error_object(response.body)
    if error is None:  # a proxy's, or a redirect: nothing in it is Anthropic's
        return openai_errors.http_error(response)
    return _error(error, response.status, f"HTTP {response.status}: ", response.headers)


def error_in_answer(body: Any, headers: Mapping[str, str]) -> CallError | None:
    """The error in the body of a 200, None if there is none."""
    error = _error_object(body)
    return None if error is None else _error(error, 200, "error in a 200: ", headers)


def _error_object(body: Any) -> dict[str, Any] | None:
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) and isinstance(error.get("type"), str) else None


def _error(error: dict[str, Any], http_status: int, prefix: str, headers: Mapping[str, str]) -> CallError:
    status = _STATUS.get(error["type"], http_status if http_status >= 400 else 500)
    message = prefix + str(error.get("message") or error["type"])
    if status == 402 or _no_credit(error):
        return AccountError("quota_exhausted", message, http_status=http_status)
    if status in (401, 403):
        return AccountError("auth", message, http_status=http_status)
    if status in openai_errors.TRANSIENT or status >= 500:
        return transient(status, http_status, message, headers)
    if status == 413:
        return RowError("request_too_large", message, http_status=http_status)
    if status in (404, 405):
        return AccountError("config_rejected", message, http_status=http_status)
    return RowError("bad_request", message, http_status=http_status)


def _no_credit(error: dict[str, Any]) -> bool:
    # The one place where words decide. An empty account is an invalid_request_error with status 400, as is a row
    # that the API does not take, and nothing but the message tells them apart. Read as a row's fault, it would make
    # final failures of all rows that are left. It is looked for in this type of error only: the message of no other
    # can be mistaken for it.
    return error["type"] == "invalid_request_error" and _NO_CREDIT in str(error.get("message")).lower()
