"""What a request costs."""

from __future__ import annotations

from transforms.llm.completion import Usage
from transforms.settings import Price

_MILLION = 1_000_000
_DIGITS = 12  # of a dollar, after the point: what is beyond them is noise of binary fractions


class TieredPrice(Price):
    """A price that depends on the length of the prompt. All tokens of a request are charged at the rates of the
    last tier that its prompt tokens have passed; up to the first one, at the rates of this price itself."""

    tiers: tuple[tuple[int, Price], ...]  # (prompt tokens, the price above them), ascending

    def of(self, prompt_tokens: int) -> Price:
        """The price of a request with so many prompt tokens."""
        price: Price = self
        for start, above in self.tiers:
            if prompt_tokens > start:
                price = above
        return price


def cost_usd(usage: Usage, price: Price | None) -> float | None:
    """US dollars for one request. None, which is not 0, where the price or a token count is unknown.

    Tokens read from a cache and tokens written to one are parts of the prompt tokens, each charged at its own
    price. A response that does not report them had none, as far as anybody can tell.
    """
    if price is None or usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    if isinstance(price, TieredPrice):
        price = price.of(usage.prompt_tokens)
    cached = min(usage.cached_tokens or 0, usage.prompt_tokens)
    written = min(usage.cache_write_tokens or 0, usage.prompt_tokens - cached)
    cached_price = price.input if price.cached_input is None else price.cached_input
    write_price = price.input if price.cache_write is None else price.cache_write
    prompt = (usage.prompt_tokens - cached - written) * price.input + cached * cached_price + written * write_price
    return round((prompt + usage.completion_tokens * price.output) / _MILLION, _DIGITS)
