"""How long a row's request is, before it is made, and the first guess of the tokens in it.

Sizes are bytes of UTF-8: four of them to a token is what English takes by most tokenizers, and closer than
characters to what other scripts take. What is not in the row's texts is counted in tokens beside it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from transforms.llm.defaults import parameters
from transforms.llm.estimate import TOKENS_PER_CHARACTER
from transforms.llm.group_prompts import GroupPrompts
from transforms.llm.prompts import Prompts
from transforms.settings import Input, Model, Task

# The least that a chat template puts around each message: cookbook.openai.com, "How to count tokens with tiktoken".
_TOKENS_PER_MESSAGE = 3
# About what Anthropic adds to a request in which a tool has to be called, 235 to 340 by model: docs.claude.com,
# "Tool use", pricing.
_TOOL_TOKENS = 313


class PromptSize:
    """Measures the requests of one task. Safe for threads."""

    def __init__(self, task: Task, input: Input, model: Model) -> None:
        self._prompts = Prompts(task, input, model)
        # Of a conversation of its own, a row has one at least.
        self._messages: float = bool(task.system) + 2 * len(task.examples) + 1
        self._group = GroupPrompts(task, input) if task.records_per_call > 1 else None
        if self._group is not None:  # a row has its share of what it is asked together with others
            self._messages = (2 + 2 * bool(task.examples)) / task.records_per_call
            self._common = round(self._group.common_characters / task.records_per_call)
        self.schema_tokens = _schema_tokens(task, model)
        """Of the schema, in every request; 0 where nobody is known to bill it."""

    def of(self, fields: Mapping[str, Any]) -> int:
        """Bytes of all texts in one row's request. 0 for one that no prompt can be made of: it is never sent."""
        try:
            if self._group is not None:
                text = json.loads(self._group.render([fields]).prompt.messages)[-1]["content"]
                return self._common + len(text.encode())
            prompt = self._prompts.render(fields)
        except Exception:
            return 0
        return prompt.characters + _more_bytes(prompt.system) + _more_bytes(prompt.messages)

    def guessed_tokens(self, rows: int, size: int) -> float:
        """Prompt tokens of so many requests, whose texts are `size` bytes together."""
        each = self._messages * _TOKENS_PER_MESSAGE + self.schema_tokens
        return size * TOKENS_PER_CHARACTER + rows * each


def most_completion_tokens(model: Model) -> int | None:
    """The longest answer that a request allows, in tokens; None where nothing bounds it."""
    given = parameters(model)
    most = given.get("max_completion_tokens", given.get("max_tokens"))
    return most if isinstance(most, int) and not isinstance(most, bool) and most > 0 else None


def _schema_tokens(task: Task, model: Model) -> int:
    """Known to bill the schema are the providers' own endpoints: Anthropic as a tool, OpenAI and Azure as a part of
    the prompt. Compatible servers make a grammar of it, which costs nothing."""
    if task.answer_schema is None or model.structured_output not in ("auto", "json_schema"):
        return 0
    tokens = round(len(json.dumps(task.answer_schema)) * TOKENS_PER_CHARACTER)
    if model.provider == "anthropic":
        return (
            0 if {"tools", "tool_choice"} & model.parameters.keys() else tokens + _TOOL_TOKENS // task.records_per_call
        )
    own = model.provider == "azure" or (model.provider == "openai" and all(map(_is_openai, model.per_endpoint)))
    return tokens if own and "response_format" not in model.parameters else 0


def _is_openai(model: Model) -> bool:
    host = urlsplit(model.base_url).hostname if model.base_url else "api.openai.com"
    return (host or "").endswith(".openai.com")


def _more_bytes(text: str) -> int:
    return 0 if text.isascii() else len(text.encode()) - len(text)
