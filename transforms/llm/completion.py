"""What one answered request brought: the text, why it ended, and what is billed for it."""

from __future__ import annotations

from typing import NamedTuple


class Usage(NamedTuple):
    """Tokens billed for one request, as the provider reports them. None is unknown, which is not 0."""

    prompt_tokens: int | None = None  # cached ones included
    completion_tokens: int | None = None  # reasoning included
    cached_tokens: int | None = None


class Completion(NamedTuple):
    """One model answer. `text` is valid Unicode; None if the message had none."""

    text: str | None
    model: str | None = None  # as the endpoint names it, often with a date
    finish_reason: str | None = None
    usage: Usage = Usage()
    refusal: str | None = None
    tool_calls: bool = False  # the model called tools, whether or not it wrote text as well
