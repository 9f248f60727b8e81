"""From the body of Anthropic's 200 to a Completion.

Source: docs.claude.com/en/api/messages. `finish_reason` gets the names that OpenAI's has, so that results of all
providers compare: stop, length, tool_calls, refusal; what is unknown stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from transforms.llm.anthropic_errors import error_in_answer
from transforms.llm.completion import Completion, Usage
from transforms.llm.reply import bad_shape, string, tokens
from transforms.llm.text import storable

_FINISH = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
}


def completion(body: Any, headers: Mapping[str, str], *, tool: str) -> Completion:
    """The completion in a response. The input of the tool named `tool` is the text of the answer, as JSON. Raises
    CallError for an error in the body, TransientError (bad_response) for a body of another shape."""
    if not isinstance(body, dict):
        raise bad_shape("not an object", body)
    error = error_in_answer(body, headers)
    if error is not None:
        raise error
    content = body.get("content")
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise bad_shape("no content", body)
    stop = string(body.get("stop_reason"))
    finish = _FINISH.get(stop or "", stop)
    answers = [block.get("input") for block in content if _is_call(block) and block.get("name") == tool]
    if answers:
        # The tool is only the way to an answer in JSON: the model has not called anything.
        text: str | None = json.dumps(answers[0], ensure_ascii=False)
        finish = "stop" if finish == "tool_calls" else finish
    else:
        texts = [block["text"] for block in content if isinstance(block.get("text"), str)]
        text = "".join(texts) if texts else None
    return Completion(
        text=None if text is None else storable(text),
        model=string(body.get("model")),
        finish_reason=finish,
        usage=_usage(body.get("usage")),
        refusal=_refusal(body, text) if finish == "refusal" else None,
        tool_calls=not answers and any(_is_call(block) for block in content),
    )


def _is_call(block: dict[str, Any]) -> bool:
    return block.get("type") == "tool_use"


def _refusal(body: dict[str, Any], text: str | None) -> str:
    details = body.get("stop_details")
    explanation = details.get("explanation") if isinstance(details, dict) else None
    return string(explanation) or (text and storable(text)) or "the model refused to answer"


def _usage(usage: Any) -> Usage:
    """input_tokens leaves out what was read from a cache and what was written to one; Usage does not, so that
    providers compare. A cache that is not mentioned was not used, but is not known."""
    if not isinstance(usage, dict):
        return Usage()
    fresh = tokens(usage.get("input_tokens"))
    read = tokens(usage.get("cache_read_input_tokens"))
    written = tokens(usage.get("cache_creation_input_tokens"))
    prompt = None if fresh is None else fresh + (read or 0) + (written or 0)
    return Usage(prompt, tokens(usage.get("output_tokens")), read, written)
