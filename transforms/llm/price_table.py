"""Which price a model has: the configuration's, else that of the package genai-prices, else none.

The package brings the providers' price lists; nothing is fetched. Only its data is used, never its own way to find
a model, which takes similar names: a name counts here if it is in a list letter by letter, or is one of the list
with the date of a snapshot behind it. A price that is not certain is none at all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import date, datetime, timezone
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

from transforms.llm.price_list import listed_price, models_by_name
from transforms.settings import Model, Price

if TYPE_CHECKING:
    from genai_prices.types import Provider

_DATED = re.compile(r"(.+)-(?:([0-9]{4})-([0-9]{2})-([0-9]{2})|([0-9]{4})([0-9]{2})([0-9]{2}))")


class Found(NamedTuple):
    """A price, and where it is from."""

    price: Price
    source: str

    def described(self) -> dict[str, Any]:
        """The price as plain values, for the account: US dollars per million tokens."""
        return {**self.price.model_dump(exclude_none=True), "source": self.source}


def find_price(model: Model, now: datetime | None = None) -> Found | None:
    """The price of a model at a time (UTC), with several endpoints the one that they have in common. A listed price
    that changes later in the run is not followed."""
    if model.price is not None:
        return Found(model.price, "model.price")
    first, *others = [_look_up(each, now or datetime.now(timezone.utc)) for each in model.per_endpoint]
    same = first is not None and all(other is not None and other.price == first.price for other in others)
    return first if same else None


def match(name: str, known: Collection[str]) -> str | None:
    """The one of the `known` names that `name` is: itself, or itself without -YYYY-MM-DD or -YYYYMMDD."""
    if name in known:
        return name
    dated = _DATED.fullmatch(name)
    if dated is None or dated[1] not in known:
        return None
    year, month, day = (int(part) for part in dated.groups()[1:] if part is not None)
    try:
        date(year, month, day)
    except ValueError:
        return None
    return dated[1]


def _look_up(model: Model, now: datetime) -> Found | None:
    name = model.price_as or model.name
    if model.provider == "embedded" or name is None:
        return None
    for provider, listed in _candidates(model, name):
        models = models_by_name(provider)
        known = match(listed, models)
        if known is not None:
            price = listed_price(models[known], model.parameters, now)
            source = f"genai-prices {metadata.version('genai-prices')}: {provider.id}/{known}"
            return None if price is None else Found(price, source)
    return None


def _candidates(model: Model, name: str) -> Iterator[tuple[Provider, str]]:
    """The lists that `name` is looked up in, and the name to look for in each."""
    # Imported here: it takes a fifth of a second, and most configurations do not need it.
    from genai_prices.data import providers

    lists = {provider.id: provider for provider in providers}
    url = model.base_url
    serving = next((item for item in providers if url and re.match(item.api_pattern, url)), None)
    # An endpoint that nobody lists is most often a gateway to the provider whose protocol it speaks.
    endpoint = serving or lists.get(model.provider)
    if endpoint is not None:
        yield endpoint, name
        for other in endpoint.fallback_model_providers or ():
            if other in lists:
                yield lists[other], name
    provider_id, slash, rest = name.partition("/")
    if model.price_as and slash and provider_id in lists:
        yield lists[provider_id], rest
