"""What one answered request brought: the text, why it ended, and what is billed for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from transforms.llm.rate_headers import RateHeaders


class Usage(NamedTuple):
    """Tokens billed for one request, as the provider reports them. None is unknown, which is not 0."""

    prompt_tokens: int | None = None  # cached ones included
    completion_tokens: int | None = None  # reasoning included
    cached_tokens: int | None = None  # of the prompt tokens, those read from a cache
    cache_write_tokens: int | None = None  # of the prompt tokens, those written to a cache
    reasoning_tokens: int | None = None  # of the completion tokens


def total_usage(usages: Iterable[Usage]) -> Usage:
    """The sum of what several requests were billed. A count that is unknown for one of them is unknown for all."""
    counts = (None if None in column else sum(column) for column in zip(*usages, strict=True))
    return Usage(*counts)


class Completion(NamedTuple):
    """One model answer. `text` is valid Unicode; None if the message had none."""

    text: str | None
    model: str | None = None  # as the endpoint names it, often with a date
    finish_reason: str | None = None
    usage: Usage = Usage()
    refusal: str | None = None
    tool_calls: bool = False  # the model called tools, whether or not it wrote text as well
    filtered: str | None = None  # what the provider's filter found in it, e.g. violence/medium
    notes: tuple[str, ...] = ()  # what is worth counting about how it was got (see notes.py)
    rate: RateHeaders | None = None  # what the response told of the account's limits
