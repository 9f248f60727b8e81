"""How long a number of calls takes at the limits: whichever of them is the tightest."""

from __future__ import annotations

from typing import NamedTuple

from transforms.llm.pace import MINUTE_SECONDS
from transforms.settings import Settings


class Durations(NamedTuple):
    """Seconds that each limit alone would make it take; None where it is not set, or what it limits is unknown."""

    requests_per_minute: float | None
    tokens_per_minute: float | None
    max_in_flight: float | None

    @property
    def longest(self) -> tuple[str, float] | None:
        """The tightest limit by its name in the settings, and the seconds. None where nothing is known."""
        known = {name: seconds for name, seconds in self._asdict().items() if seconds is not None}
        return max(known.items(), key=lambda item: item[1]) if known else None


def durations(
    settings: Settings, requests: float | None, tokens: float | None, latency_seconds: float | None
) -> Durations:
    """How long it takes one worker process. `latency_seconds` are those of all requests added up, shared by the calls
    in flight (Little's law). Limits are those of all endpoints together, with their headroom."""
    return Durations(
        _paced(requests, _per_minute(settings, "requests_per_minute")),
        _paced(tokens, _per_minute(settings, "tokens_per_minute")),
        None if latency_seconds is None else latency_seconds / _in_flight(settings),
    )


def _paced(amount: float | None, per_minute: float | None) -> float | None:
    return None if amount is None or per_minute is None else amount / per_minute * MINUTE_SECONDS


def _per_minute(settings: Settings, limit: str) -> float | None:
    common = getattr(settings.limits, limit)
    each = [getattr(endpoint, limit) or common for endpoint in settings.model.endpoints] or [common]
    return None if None in each else sum(each) * settings.limits.headroom


def _in_flight(settings: Settings) -> int:
    most = settings.max_in_flight
    each = [min(most, endpoint.max_in_flight or most) for endpoint in settings.model.endpoints] or [most]
    return min(most, sum(each))
