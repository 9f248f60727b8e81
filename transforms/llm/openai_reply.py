"""From the body of a 200 to a Completion.

Source: platform.openai.com/docs/api-reference/chat/object, read with the liberties that compatible servers
take: usage, its details and its counts may be null or missing, content may be a list of parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transforms.llm.completion import Completion, Usage
from transforms.llm.filters import categories
from transforms.llm.openai_errors import error_in_answer
from transforms.llm.reply import bad_shape, string, tokens
from transforms.llm.text import storable


def completion(body: Any, headers: Mapping[str, str]) -> Completion:
    """The completion in a chat.completions response. Raises CallError for an `error` in it, TransientError
    (bad_response) for a body of another shape."""
    if not isinstance(body, dict):
        raise bad_shape("not an object", body)
    if body.get("error"):
        raise error_in_answer(body["error"], headers)
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise bad_shape("no choices", body)
    if choice.get("error"):
        raise error_in_answer(choice["error"], headers)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise bad_shape("no message", body)
    text, refusal = _content(message, body)
    return Completion(
        text=text,
        model=string(body.get("model")),
        finish_reason=string(choice.get("finish_reason")),
        usage=_usage(body.get("usage")),
        refusal=string(message.get("refusal")) or refusal,
        tool_calls=bool(message.get("tool_calls") or message.get("function_call")),
        filtered=categories(choice.get("content_filter_results")) or None,
    )


def _content(message: dict[str, Any], body: Any) -> tuple[str | None, str | None]:
    """The message's text and a refusal among its parts."""
    content = message.get("content")
    if content is None:
        return None, None
    if isinstance(content, str):
        return storable(content), None
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise bad_shape("content is neither text nor parts", body)
    texts = [part["text"] for part in content if isinstance(part.get("text"), str)]
    refusals = [part["refusal"] for part in content if isinstance(part.get("refusal"), str)]
    return (
        storable("".join(texts)) if texts else None,
        storable("".join(refusals)) if refusals else None,
    )


def _usage(usage: Any) -> Usage:
    """Cached tokens are a part of the prompt's here, reasoning a part of the completion's."""
    if not isinstance(usage, dict):
        return Usage()
    prompt = usage.get("prompt_tokens_details")
    prompt = prompt if isinstance(prompt, dict) else {}
    answer = usage.get("completion_tokens_details")
    return Usage(
        tokens(usage.get("prompt_tokens")),
        tokens(usage.get("completion_tokens")),
        tokens(prompt.get("cached_tokens")),
        tokens(prompt.get("cache_write_tokens")),  # OpenRouter's
        tokens(answer.get("reasoning_tokens")) if isinstance(answer, dict) else None,
    )
