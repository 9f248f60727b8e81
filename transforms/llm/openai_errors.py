"""From an OpenAI-style error response to the kind of error it is.

Source: platform.openai.com/docs/guides/error-codes, learn.microsoft.com (Azure OpenAI content filtering), and
what compatible servers send (openai_problem.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transforms.llm.errors import AccountError, CallError, RowError, TransientError
from transforms.llm.filters import categories
from transforms.llm.openai_problem import Problem, problem_in
from transforms.llm.retry_after import retry_after
from transforms.llm.transport import Response

TRANSIENT = frozenset({408, 409, 429, 499})  # and every 5xx
MAYBE_BILLED = frozenset({408, 499, 504, 520, 522, 524})  # somebody in between gave up waiting for the answer
QUOTA = frozenset(
    {"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "exceeded_current_quota_error"}
)
KEY = frozenset({"invalid_api_key", "api_key_invalid", "invalid_authentication_error"})
FILTERED = frozenset({"content_filter", "content_policy_violation", "responsibleaipolicyviolation"})
TOO_LARGE = frozenset({"context_length_exceeded", "exceed_context_size_error", "string_above_max_length"})
CONFIG = frozenset(
    {
        "unsupported_parameter",
        "unsupported_value",
        "unknown_parameter",
        "missing_required_parameter",
        "model_not_found",
        "invalid_model",
        "invalid_json_schema",
        "deploymentnotfound",
        "operationnotsupported",
    }
)
# Parts of the request that are the same for every row. Not max_tokens: some servers name it when one prompt
# is long.
_FORMAT = "response_format"
CONFIG_PARAMS = ("model", _FORMAT)


def http_error(response: Response) -> CallError:
    """The error of a response with a status of 300 and up."""
    status, problem = response.status, problem_in(response.body)
    message = f"HTTP {status}: {problem.message}" if problem.message else response.unreadable()
    if 300 <= status < 400:
        location = response.headers.get("location", "nowhere")
        message = f"HTTP {status}: redirected to {location}; is model.base_url right?"
    if status == 403 and response.body is None and "html" in response.headers.get("content-type", ""):
        # A page is a proxy's or a firewall's, which may dislike one row's text. Where it dislikes all of them, many
        # in a row end the run.
        return TransientError("bad_response", message, http_status=status)
    return _error(status, status, problem, message, response.headers)


def error_in_answer(error: Any, headers: Mapping[str, str]) -> CallError:
    """The error of a 200 whose body is an `error` object: what a response with the status in its code would
    be."""
    problem = problem_in({"error": error})
    message = f"error in a 200: {problem.message or 'no message'}"
    code = error.get("code") if isinstance(error, dict) else None
    number = int(code) if isinstance(code, int) or (isinstance(code, str) and code.isdecimal()) else 0
    if 400 <= number <= 599:
        return _error(number, number, problem, message, headers)
    if problem.codes & {"rate_limit_exceeded", "rate_limit_error"}:
        return _error(429, 200, problem, message, headers)
    known = problem.codes & (QUOTA | KEY | FILTERED | TOO_LARGE | CONFIG)
    return _error(400 if known else 500, 200, problem, message, headers)


def refuses_format(body: Any) -> bool:
    """Whether the body of an error names the response format as what is refused."""
    problem = problem_in(body)
    return problem.param.startswith(_FORMAT) or "invalid_json_schema" in problem.codes


def transient(status: int, http_status: int, message: str, headers: Mapping[str, str]) -> TransientError:
    """The error of a status that may be another one later. `http_status` is the status of the response itself."""
    reason = {429: "rate_limited", 408: "timeout"}.get(status, "upstream_error")
    return TransientError(
        reason,  # type: ignore[arg-type]
        message,
        http_status=http_status,
        retry_after=retry_after(headers),
        maybe_billed=int(status in MAYBE_BILLED),
    )


def _error(status: int, http_status: int, problem: Problem, message: str, headers: Mapping[str, str]) -> CallError:
    codes = problem.codes
    if codes & QUOTA or status == 402:
        return AccountError("quota_exhausted", message, http_status=http_status)
    if (codes & FILTERED or problem.flagged) and status < 500:
        return RowError("content_filter", message + categories(problem.found, " ({})"), http_status=http_status)
    if status in (401, 403) or (codes & KEY and status < 500):
        return AccountError("auth", message, http_status=http_status)
    if status in TRANSIENT or status >= 500:
        return transient(status, http_status, message, headers)
    if status == 413 or codes & TOO_LARGE:
        return RowError("request_too_large", message, http_status=http_status)
    if status < 400 or status in (404, 405) or codes & CONFIG or problem.param.startswith(CONFIG_PARAMS):
        return AccountError("config_rejected", message, http_status=http_status)
    return RowError("bad_request", message, http_status=http_status)
