"""The lines of an estimate: each figure with what it stands on, and unknown where it is."""

from __future__ import annotations

from typing import Any

import pytest

from pipelines.figures import Figures, table, usd
from transforms.llm.price_table import Found
from transforms.llm.prices import TieredPrice
from transforms.llm.projection import Observation
from transforms.settings import Price, Settings

PRICE = Found(Price(input=1, output=2), "model.price")
SEEN = [Observation(True, 1, size // 4, 10, None, 500.0, size) for size in (100, 200, 300, 400)]


def lines(
    observed: list[Observation] | None = None, price: Found | None = PRICE, rows: int = 1000, **sections: Any
) -> dict[str, tuple[str, str]]:
    known: dict[str, Any] = {
        "task": {"prompt": "{text}"},
        "input": {"path": "x"},
        "output": {"path": "x"},
        "model": {"provider": "openai", "name": "m", "base_url": "http://x"},
    }
    settings = Settings(**{**known, **sections})
    figures = Figures(settings, price, observed or [], "from so many", rows, 250 * rows)
    return {name: (value, basis) for name, value, basis in figures.lines(spent_usd=0.25)}


def model(**parameters: Any) -> dict[str, Any]:
    return {"provider": "openai", "name": "m", "base_url": "http://x", "parameters": parameters}


def test_with_nothing_to_learn_from() -> None:
    found = lines()
    assert found["requests"] == ("1,000", "one a row")
    assert found["prompt tokens"][0] == "65,500"
    assert found["completion tokens"][0] == "unknown"
    assert found["cost"][0] == "at least $0.0655"
    assert found["time of the calls"][0] == "unknown"
    assert "failures" not in found
    assert "budget left" not in found


def test_an_answer_that_is_bounded_bounds_the_cost() -> None:
    found = lines(model=model(max_tokens=10))
    assert found["completion tokens"][0] == "unknown, at most 10,000"
    assert found["cost"][0] == "$0.0655 to $0.0855"
    twice = lines(model=model(max_tokens=10), task={"prompt": "{text}", "on_invalid": "retry"})
    assert twice["completion tokens"][0] == "unknown, at most 20,000"
    assert twice["cost"][0] == "$0.0655 to $0.1710"


def test_with_earlier_rows() -> None:
    found = lines(SEEN)
    assert found["prompt tokens"] == ("62,500", "from so many")
    assert found["completion tokens"] == ("10,000", "from so many")
    assert found["cost"][0] == "$0.0825"
    assert found["time of the calls"][0] == "0:16"  # 500 s of latency, 32 calls at once
    assert found["failures"] == ("0.0 %", "0.0 % to 49.0 %; from so many")


def test_unknown_is_never_0() -> None:
    blank = [item._replace(prompt_tokens=None, completion_tokens=None, latency_ms=None) for item in SEEN]
    found = lines(blank, price=None)
    assert found["prompt tokens"][1].startswith("guessed")
    assert (found["completion tokens"][0], found["cost"][0]) == ("unknown", "unknown")
    assert found["time of the calls"][0] == "unknown"


@pytest.mark.parametrize(
    ("most", "observed", "verdict"),
    [
        (0.4, SEEN, "suffices"),
        (0.26, SEEN, "does not suffice: for about 121 of 1,000 rows"),
        (0.2, SEEN, "does not suffice: for about 0 of 1,000 rows"),
        (0.4, [], "may not suffice"),
        (0.26, [], "does not suffice: for about 153 of 1,000 rows"),
    ],
)
def test_what_is_left_of_the_budget(most: float, observed: list[Observation], verdict: str) -> None:
    value, basis = lines(observed, budget={"max_cost_usd": most})["budget left"]
    assert value == usd(max(0.0, most - 0.25))
    assert basis.endswith(verdict)


def test_the_tightest_limit_is_named() -> None:
    limits = {"requests_per_minute": 61, "headroom": 1}
    value, basis = lines(SEEN, limits=limits)["time of the calls"]
    assert (value, "limits.requests_per_minute" in basis) == ("16:40", True)
    value, basis = lines(limits=limits)["time of the calls"]
    assert (value, "latency is unknown" in basis) == ("at least 16:40", True)


def test_a_price_that_depends_on_the_prompt() -> None:
    tiered = TieredPrice(input=1, output=2, tiers=((50, Price(input=10, output=20)),))
    assert lines(price=Found(tiered, "list"))["cost"][0] == "at least $0.6550"


def test_nothing_to_do() -> None:
    found = lines(SEEN, rows=0)
    assert [found[name][0] for name in ("requests", "prompt tokens", "cost")] == ["0", "0", "$0.0000"]


def test_a_table_has_columns() -> None:
    assert table([("a", "1", "x"), ("long", "1,000", "")]) == "a         1  x\nlong  1,000"
