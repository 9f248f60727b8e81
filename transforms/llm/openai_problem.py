"""What an OpenAI-style error says about itself, in each of the shapes that servers send it in.

{"error": {"message", "type", "param", "code"}}     OpenAI; Azure adds "innererror"; OpenRouter "metadata"
{"message", "type", "param", "code"}                vLLM
{"error": "message"}, {"message": "..."}            small servers
{"detail": [{"loc": ["body", "response_format"], "msg"}]}       FastAPI
[{"error": {"message", "details": [{"reason"}]}}]   Gemini
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Problem(NamedTuple):
    """`codes` are codes and types, in lower case. `param` is the part of the request that is refused, in dots.
    `found` is what a content filter reports; `flagged`: a moderation refused the prompt."""

    message: str = ""
    codes: frozenset[str] = frozenset()
    param: str = ""
    found: Any = None
    flagged: bool = False


def problem_in(body: Any) -> Problem:
    """What the body of an error, as parsed JSON, says."""
    if isinstance(body, list) and len(body) == 1:
        body = body[0]
    error = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(error, str):
        return Problem(error)
    if not isinstance(error, dict):
        return Problem()
    inner = _dict(error.get("innererror"))
    metadata = _dict(error.get("metadata"))
    details = [_dict(detail) for detail in error["details"]] if isinstance(error.get("details"), list) else []
    found = (error.get("code"), error.get("type"), inner.get("code"), *(detail.get("reason") for detail in details))
    message = error.get("message") or error.get("detail") or ""
    return Problem(
        message if isinstance(message, str) else str(message),
        frozenset(code.lower() for code in found if isinstance(code, str)),
        str(error.get("param") or _location(error.get("detail"))),
        inner.get("content_filter_result") or inner.get("content_filter_results"),
        "flagged_input" in metadata,
    )


def _location(detail: Any) -> str:
    first = _dict(detail[0]) if isinstance(detail, list) and detail else {}
    parts = first.get("loc")
    if not isinstance(parts, list):
        return ""
    return ".".join(str(part) for part in parts if part != "body")


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
