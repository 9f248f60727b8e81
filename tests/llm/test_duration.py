"""How long calls take at the limits."""

from __future__ import annotations

from typing import Any

import pytest

from transforms.llm.duration import durations
from transforms.settings import Settings


def settings(limits: dict[str, Any], endpoints: list[dict[str, Any]] | None = None) -> Settings:
    model = {"provider": "openai", "name": "m", "endpoints": endpoints or []}
    return Settings(task={"prompt": "x"}, input={"path": "x"}, output={"path": "x"}, model=model, limits=limits)


def test_each_limit_and_the_tightest() -> None:
    found = durations(
        settings({"requests_per_minute": 100, "tokens_per_minute": 1000, "headroom": 0.5, "max_in_flight": 4}),
        requests=500,
        tokens=2000,
        latency_seconds=100,
    )
    # The pace is a minute's limit in 61 seconds.
    assert found == (pytest.approx(610), pytest.approx(244), 25)
    assert found.longest == ("requests_per_minute", pytest.approx(610))


def test_what_is_not_known_limits_nothing() -> None:
    assert durations(settings({}), 500, 2000, None).longest is None
    assert durations(settings({"tokens_per_minute": 10}), 500, None, None).longest is None
    assert durations(settings({}), 500, None, 64).longest == ("max_in_flight", 2)


def test_endpoints_add_up() -> None:
    two = [{"base_url": "http://a", "requests_per_minute": 50, "max_in_flight": 2}, {"base_url": "http://b"}]
    found = durations(settings({"requests_per_minute": 100, "headroom": 1, "max_in_flight": 3}, two), 150, None, 9)
    assert found == (pytest.approx(61), None, 3)  # 5 connections for 3 threads
    unlimited = durations(settings({"headroom": 1, "max_in_flight": 8}, two), 150, None, 9)
    assert unlimited.requests_per_minute is None
