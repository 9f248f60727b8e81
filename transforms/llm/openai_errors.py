"""From an OpenAI-style error response to the kind of error it is.

Source: platform.openai.com/docs/guides/error-codes, learn.microsoft.com (Azure OpenAI content filtering), and
what compatible servers send: `{"error": {"message", "type", "param", "code"}}`, the same without the outer
object, or an `error` object inside a 200.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from transforms.llm.errors import AccountError, CallError, RowError, TransientError
from transforms.llm.retry_after import retry_after
from transforms.llm.text import excerpt

TRANSIENT = frozenset({408, 409, 429, 499})  # and every 5xx
QUOTA = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_not_active"})
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
    }
)
# Parts of the request that are the same for every row. Not max_tokens: some servers name it when one prompt
# is long.
CONFIG_PARAMS = ("model", "response_format")


class _Problem(NamedTuple):
    message: str
    codes: frozenset[str]
    param: str
    inner: Mapping[str, Any]


def http_error(status: int, body: Any, headers: Mapping[str, str], text: str = "") -> CallError:
    """The error of a response with `status` (300 and up). `body` is its parsed JSON or None, `text` the body
    as text.

    `headers` finds names in lower case.
    """
    problem = _problem(body)
    message = f"HTTP {status}: {problem.message}" if problem.message else unreadable(status, headers, text)
    if 300 <= status < 400:
        location = headers.get("location", "nowhere")
        message = f"HTTP {status}: redirected to {location}; is model.base_url right?"
    return _error(status, status, problem, message, headers)


def error_in_answer(error: Any, headers: Mapping[str, str]) -> CallError:
    """The error of a 200 whose body is an `error` object: what a response with the status in its code would
    be."""
    problem = _problem({"error": error})
    message = f"error in a 200: {problem.message or 'no message'}"
    code = error.get("code") if isinstance(error, dict) else None
    number = int(code) if isinstance(code, int) or (isinstance(code, str) and code.isdecimal()) else 0
    if 400 <= number <= 599:
        return _error(number, number, problem, message, headers)
    if "rate_limit_exceeded" in problem.codes:
        return _error(429, 200, problem, message, headers)
    known = problem.codes & (QUOTA | FILTERED | TOO_LARGE | CONFIG)
    return _error(400 if known else 500, 200, problem, message, headers)


def unreadable(status: int, headers: Mapping[str, str], text: str) -> str:
    """A message for a body that is no JSON of ours: status, content type and how it begins."""
    kind = headers.get("content-type", "no content type")
    return f"HTTP {status} {kind}: {excerpt(text, 200) or 'empty body'}"


def _problem(body: Any) -> _Problem:
    error = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(error, str):
        return _Problem(error, frozenset(), "", {})
    if not isinstance(error, dict):
        return _Problem("", frozenset(), "", {})
    inner = error.get("innererror")
    inner = inner if isinstance(inner, dict) else {}
    found = (error.get("code"), error.get("type"), inner.get("code"))
    message = error.get("message") or error.get("detail") or ""
    return _Problem(
        message if isinstance(message, str) else str(message),
        frozenset(code.lower() for code in found if isinstance(code, str)),
        str(error.get("param") or ""),
        inner,
    )


def _error(status: int, http_status: int, problem: _Problem, message: str, headers: Mapping[str, str]) -> CallError:
    codes = problem.codes
    if codes & QUOTA or status == 402:
        return AccountError("quota_exhausted", message, http_status=http_status)
    if codes & FILTERED and status < 500:
        return RowError("content_filter", message + _categories(problem.inner), http_status=http_status)
    if status in (401, 403):
        return AccountError("auth", message, http_status=http_status)
    if status in TRANSIENT or status >= 500:
        pause = retry_after(headers)
        if status == 429:
            return TransientError("rate_limited", message, http_status=http_status, retry_after=pause)
        if status == 408:
            return TransientError("timeout", message, http_status=http_status, retry_after=pause)
        return TransientError("upstream_error", message, http_status=http_status, retry_after=pause)
    if status == 413 or codes & TOO_LARGE:
        return RowError("request_too_large", message, http_status=http_status)
    if status < 400 or status in (404, 405) or codes & CONFIG or problem.param.startswith(CONFIG_PARAMS):
        return AccountError("config_rejected", message, http_status=http_status)
    return RowError("bad_request", message, http_status=http_status)


def _categories(inner: Mapping[str, Any]) -> str:
    """What the filter found, e.g. " (violence/medium)"."""
    results = inner.get("content_filter_result")
    found = [
        f"{category}/{result.get('severity', 'detected')}"
        for category, result in (results.items() if isinstance(results, dict) else ())
        if isinstance(result, dict) and result.get("filtered")
    ]
    return f" ({', '.join(found)})" if found else ""
