"""Parameters of a request that model.parameters need not set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transforms.settings import Model

_BY_PROVIDER: Mapping[str, Mapping[str, Any]] = {
    "embedded": {"temperature": 0, "max_tokens": 256},
    "anthropic": {"max_tokens": 1024},  # the protocol demands a limit
}


def parameters(model: Model) -> dict[str, Any]:
    """All parameters of the model's requests, but for what a row sets for itself."""
    return {**_BY_PROVIDER.get(model.provider, {}), **model.parameters}
