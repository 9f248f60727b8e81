"""What several records of one call took together, dealt out to each of them: the parts add up to the whole exactly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from transforms.llm.completion import Usage

_PARTS_OF_A_DOLLAR = 10**12


def split(total: int, weights: Sequence[int]) -> list[int]:
    """`total`, from 0 on, in proportion to the weights, of which one at least is more than 0. Each part is less than
    1 away from its exact share."""
    whole = sum(weights)
    ends = [total * reached // whole for reached in accumulate(weights)]
    return [end - start for start, end in zip([0, *ends], ends, strict=False)]


def split_dollars(total: float | None, weights: Sequence[int]) -> list[float | None]:
    """The same for US dollars, whose parts are whole picodollars. None, which is unknown, for all if it is."""
    if total is None:
        return [None] * len(weights)
    return [part / _PARTS_OF_A_DOLLAR for part in split(round(total * _PARTS_OF_A_DOLLAR), weights)]


def split_usage(usage: Usage, weights: Sequence[int]) -> list[Usage]:
    """The same for tokens. No record has more cached tokens than prompt tokens."""
    none: list[int | None] = [None] * len(weights)
    completion, reasoning = (
        none if count is None else list[int | None](split(count, weights))
        for count in (usage.completion_tokens, usage.reasoning_tokens)
    )
    if usage.prompt_tokens is None:
        return [Usage(None, *each, None, None) for each in zip(completion, none, strict=True)]
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    written = min(usage.cache_write_tokens or 0, usage.prompt_tokens - cached)
    parts = [split(count, weights) for count in (usage.prompt_tokens - cached - written, cached, written)]
    return [
        Usage(
            rest + read + wrote,
            completion[at],
            None if usage.cached_tokens is None else read,
            None if usage.cache_write_tokens is None else wrote,
            reasoning[at],
        )
        for at, (rest, read, wrote) in enumerate(zip(*parts, strict=True))
    ]
