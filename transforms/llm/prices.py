"""What a request costs."""

from __future__ import annotations

from transforms.llm.completion import Usage
from transforms.settings import Price

_MILLION = 1_000_000


def cost_usd(usage: Usage, price: Price | None) -> float | None:
    """US dollars for one request. None, which is not 0, where the price or a token count is unknown.

    OpenAI's rule: cached tokens are a part of the prompt tokens, charged at their own price. A response that
    does not report them had none, as far as anybody can tell; the cost is then an upper bound.
    """
    if price is None or usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    cached_price = price.input if price.cached_input is None else price.cached_input
    prompt = (usage.prompt_tokens - cached) * price.input + cached * cached_price
    return (prompt + usage.completion_tokens * price.output) / _MILLION
