"""The price lists of genai-prices: which names a provider lists, and what a listed model costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from transforms.llm.prices import TieredPrice
from transforms.settings import Price

if TYPE_CHECKING:  # importing it takes a fifth of a second, and most configurations do not need it
    from genai_prices.types import MatchLogic, ModelInfo, ModelPrice, Provider

_RATES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
# What a list may charge for besides, and calls with text alone never use.
_UNUSED = re.compile("audio|image|video|document|searches|cache_write_1h")
# Parameters by which a request chooses another price, and their values that choose none.
_TIER_PARAMETERS = ("service_tier", "speed")
_ORDINARY = ("auto", "default", "standard", "standard_only")


def models_by_name(provider: Provider) -> dict[str, ModelInfo]:
    """The models of a list by each name that it gives in full."""
    names: dict[str, ModelInfo] = {}
    for model in provider.models:
        own = [model.id] if model.is_match(model.id) else []  # some ids are no names but stand for a family
        for name in (*own, *_equals(model.match)):
            names.setdefault(name, model)
    return names


def _equals(rule: MatchLogic) -> Iterator[str]:
    from genai_prices.types import ClauseEquals, ClauseOr

    if isinstance(rule, ClauseEquals):
        yield rule.equals
    elif isinstance(rule, ClauseOr):
        for part in rule.or_:
            yield from _equals(part)


def listed_price(model: ModelInfo, parameters: Mapping[str, Any], now: datetime) -> Price | None:
    """What a listed model costs, None where that is more than rates for tokens, or depends on the hour."""
    context = _context(model, parameters)
    if context is None or _by_the_hour(model, now):
        return None
    return _rates(model.get_prices(now, context))


def _context(model: ModelInfo, parameters: Mapping[str, Any]) -> dict[str, str] | None:
    """What the request's parameters say about its price. None where the list has no price for that."""
    context = {}
    for key in _TIER_PARAMETERS:
        value = parameters.get(key)
        if value is not None and value not in _ORDINARY:
            if not any(variant.when == {key: value} for variant in model.price_variants or ()):
                return None
            context[key] = value
    return context


def _by_the_hour(model: ModelInfo, now: datetime) -> bool:
    from genai_prices.types import ModelPrice, TimeOfDateConstraint

    if isinstance(model.prices, ModelPrice):
        return False
    for conditional in reversed(model.prices):  # the last one that holds counts
        if isinstance(conditional.constraint, TimeOfDateConstraint):
            return True
        if conditional.constraint is None or conditional.constraint.active(now):
            return False
    return False


def _rates(listed: ModelPrice) -> Price | None:
    from genai_prices.types import TieredPrices

    rates = {key: value for key, value in vars(listed).items() if value is not None and not _UNUSED.search(key)}
    if not {"input_mtok", "output_mtok"} <= rates.keys() <= set(_RATES.values()):
        return None
    starts = sorted({tier.start for rate in rates.values() if isinstance(rate, TieredPrices) for tier in rate.tiers})

    def above(start: int) -> Price:
        return Price.model_validate({field: _rate(rates.get(key), start) for field, key in _RATES.items()})

    if not starts:
        return above(-1)
    return TieredPrice(**dict(above(-1)), tiers=tuple((start, above(start)) for start in starts))


def _rate(rate: Any, start: int) -> float | None:
    """US dollars per million tokens, in requests with more than `start` prompt tokens."""
    if rate is None or isinstance(rate, Decimal):
        return None if rate is None else float(rate)
    passed = [tier.price for tier in rate.tiers if tier.start <= start]
    return float(passed[-1] if passed else rate.base)
