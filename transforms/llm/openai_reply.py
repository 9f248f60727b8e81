"""From the body of a 200 to a Completion.

Source: platform.openai.com/docs/api-reference/chat/object, read with the liberties that compatible servers
take: usage, its details and its counts may be null or missing, content may be a list of parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import TransientError
from transforms.llm.openai_errors import error_in_answer
from transforms.llm.text import excerpt, without_surrogates

_MOST_TOKENS = 2**63 - 1  # what a column of the results holds


def completion(body: Any, headers: Mapping[str, str]) -> Completion:
    """The completion in a chat.completions response. Raises CallError for an `error` in it, TransientError
    (bad_response) for a body of another shape."""
    if not isinstance(body, dict):
        raise _bad("not an object", body)
    if body.get("error"):
        raise error_in_answer(body["error"], headers)
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise _bad("no choices", body)
    if choice.get("error"):
        raise error_in_answer(choice["error"], headers)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise _bad("no message", body)
    text, refusal = _content(message, body)
    return Completion(
        text=text,
        model=_string(body.get("model")),
        finish_reason=_string(choice.get("finish_reason")),
        usage=_usage(body.get("usage")),
        refusal=_string(message.get("refusal")) or refusal,
        tool_calls=bool(message.get("tool_calls") or message.get("function_call")),
    )


def _content(message: dict[str, Any], body: Any) -> tuple[str | None, str | None]:
    """The message's text and a refusal among its parts."""
    content = message.get("content")
    if content is None:
        return None, None
    if isinstance(content, str):
        return without_surrogates(content), None
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise _bad("content is neither text nor parts", body)
    texts = [part["text"] for part in content if isinstance(part.get("text"), str)]
    refusals = [part["refusal"] for part in content if isinstance(part.get("refusal"), str)]
    return (
        without_surrogates("".join(texts)) if texts else None,
        without_surrogates("".join(refusals)) if refusals else None,
    )


def _usage(usage: Any) -> Usage:
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("prompt_tokens_details")
    return Usage(
        _tokens(usage.get("prompt_tokens")),
        _tokens(usage.get("completion_tokens")),
        _tokens(details.get("cached_tokens")) if isinstance(details, dict) else None,
    )


def _tokens(value: Any) -> int | None:
    known = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS
    return value if known else None


def _string(value: Any) -> str | None:
    return without_surrogates(value) if isinstance(value, str) else None


def _bad(what: str, body: Any) -> TransientError:
    # str() of a huge body is paid for only on this path, which a row takes a few times at most.
    return TransientError("bad_response", f"HTTP 200, but {what}: {excerpt(str(body), 200)}", http_status=200)
