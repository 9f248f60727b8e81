"""Parameters of a request that model.parameters need not set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transforms.settings import Model

_BY_PROVIDER: Mapping[str, Mapping[str, Any]] = {
    "embedded": {"temperature": 0, "max_tokens": 256},
    "anthropic": {"max_tokens": 1024},  # the protocol demands a limit
}


_ANSWER_LIMITS = ("max_tokens", "max_completion_tokens")
_SAFE_LIMIT = 4096  # tokens that every model of Anthropic can answer with


def parameters(model: Model, records: int = 1) -> dict[str, Any]:
    """All parameters of the model's requests, but for what a row sets for itself. Limits of an answer are a record's:
    a request about several `records` may take as many times that."""
    known = {**_BY_PROVIDER.get(model.provider, {}), **model.parameters}
    for name in _ANSWER_LIMITS if records > 1 else ():
        limit = known.get(name)
        if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0:
            known[name] = limit * records
            if name not in model.parameters and model.provider == "anthropic":  # nobody has said that it takes more
                known[name] = max(limit, min(limit * records, _SAFE_LIMIT))
    return known
