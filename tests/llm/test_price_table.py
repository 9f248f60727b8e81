"""Which price a model has."""

import random
import subprocess
import sys
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from genai_prices import types
from genai_prices.data import providers

from transforms.llm.completion import Usage
from transforms.llm.price_list import listed_price, models_by_name
from transforms.llm.price_table import find_price, match
from transforms.llm.prices import TieredPrice, cost_usd
from transforms.settings import Endpoint, Model, Price

NOW = datetime(2026, 11, 30, tzinfo=timezone.utc)
OPENROUTER = "https://openrouter.ai/api/v1"


def price(name: str, **more: Any) -> Price | None:
    found = find_price(Model(provider="openai", name=name, **more), NOW)
    return found and found.price


def model_info(prices: Any, variants: list[types.PriceVariant] | None = None) -> types.ModelInfo:
    return types.ModelInfo(id="m", match=types.ClauseEquals("m"), prices=prices, price_variants=variants)


def listed(**rates: Any) -> types.ModelPrice:
    return types.ModelPrice(**{key: Decimal(str(rate)) for key, rate in rates.items()})


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("gpt-5", "gpt-5"),
        ("gpt-5-2025-08-07", "gpt-5"),
        ("gpt-5-20250807", "gpt-5"),
        ("gpt-5-mini-2025-08-07", "gpt-5-mini"),
        ("gpt-5.4-mini", None),
        ("gpt-5.6-sol", None),
        ("o3-pro-2025-06-10", None),
        ("command-a-plus-05-2026", None),
        ("cx/gpt-5", None),
        ("gpt-5:thinking", None),
        ("gpt-5-99-99", None),
        ("accounts/x/models/gpt-5", None),
        ("gpt-5-2025-02-30", None),
        ("gpt-5-20251301", None),
        ("gpt-5-202508070", None),
        ("gpt-5-2025-08-07-preview", None),
        ("GPT-5", None),
        ("gpt-5-٢٠٢٥-٠٨-٠٧", None),
    ],
)
def test_a_name_is_found_exactly_or_with_a_date(name: str, known: str | None) -> None:
    assert match(name, ["gpt-5", "gpt-5-mini", "o3", "command-a"]) == known


def test_the_configuration_wins() -> None:
    mine = Price(input=1, output=2)
    assert price("gpt-4o-mini", price=mine) is mine


def test_a_known_model_and_its_snapshots() -> None:
    assert price("gpt-4o-mini") == Price(input=0.15, output=0.6, cached_input=0.075)
    assert price("gpt-4o-mini-2024-07-18") == price("gpt-4o-mini")
    # A snapshot that is listed has a price of its own.
    assert price("gpt-4o-2024-05-13") != price("gpt-4o") == price("gpt-4o-2024-08-06")


@pytest.mark.parametrize(
    "name", ["mock-1", "gpt-4o-mini-of-mine", "openai/gpt-4o-mini", "gpt-4o-mini:free", "ft:gpt-4o"]
)
def test_other_names_have_no_price(name: str) -> None:
    assert price(name) is None


def test_each_endpoint_has_a_list_of_its_own() -> None:
    assert price("openai/gpt-4o-mini", base_url=OPENROUTER) is not None
    assert price("gpt-5-mini", base_url="http://127.0.0.1:4000/v1") == price("gpt-5-mini")  # a gateway


def test_an_alias_says_which_price_counts() -> None:
    assert price("my-deployment", price_as="gpt-5-mini") == price("gpt-5-mini")
    assert price("x", price_as="anthropic/claude-haiku-4-5-20251001") == Price(
        input=1, output=5, cached_input=0.1, cache_write=1.25
    )
    assert price("gpt-5-mini", price_as="nobody/gpt-5-mini") is None


def test_several_endpoints_have_a_price_if_it_is_the_same() -> None:
    named = [Endpoint(name="gpt-4o-mini"), Endpoint(name="openai/gpt-4o-mini", base_url=OPENROUTER)]
    assert price("gpt-4o-mini", endpoints=named) == price("gpt-4o-mini")
    assert price("gpt-4o-mini", endpoints=[*named, Endpoint(name="gpt-4o")]) is None
    assert price("gpt-4o-mini", endpoints=[*named, Endpoint(name="mine")]) is None


def test_the_embedded_model_has_no_price_unless_it_is_given_one() -> None:
    assert find_price(Model(name="gpt-4o-mini")) is None
    assert find_price(Model(price=Price(input=0, output=0))) is not None


def test_a_price_says_where_it_is_from() -> None:
    found = find_price(Model(provider="openai", name="gpt-4o-mini-2024-07-18"), NOW)
    assert found is not None
    described = found.described()
    assert described.pop("source").endswith(": openai/gpt-4o-mini-2024-07-18")
    assert described == {"input": 0.15, "output": 0.6, "cached_input": 0.075}


def test_what_the_request_asks_for_chooses_the_price() -> None:
    flex = types.PriceVariant({"service_tier": "flex"}, listed(input_mtok=1, output_mtok=2))
    model = model_info(listed(input_mtok=2, output_mtok=4), [flex])
    assert listed_price(model, {"service_tier": "auto", "seed": 1}, NOW) == Price(input=2, output=4)
    assert listed_price(model, {"service_tier": "flex"}, NOW) == Price(input=1, output=2)
    assert listed_price(model, {"service_tier": "priority"}, NOW) is None


def test_a_price_that_depends_on_the_hour_is_none() -> None:
    day = types.TimeOfDateConstraint(datetime(2026, 1, 1, 8).time(), datetime(2026, 1, 1, 20).time())
    both = [types.ConditionalPrice(prices=listed(input_mtok=1, output_mtok=1))]
    both.append(types.ConditionalPrice(day, prices=listed(input_mtok=2, output_mtok=2)))
    assert listed_price(model_info(both), {}, NOW) is None


def test_the_price_of_the_day_counts() -> None:
    since = types.StartDateConstraint(NOW.date())
    prices = [types.ConditionalPrice(prices=listed(input_mtok=1, output_mtok=1))]
    prices.append(types.ConditionalPrice(since, prices=listed(input_mtok=2, output_mtok=2)))
    assert listed_price(model_info(prices), {}, NOW) == Price(input=2, output=2)
    assert listed_price(model_info(prices), {}, datetime(2026, 11, 29, 23, tzinfo=timezone.utc)) == Price(
        input=1, output=1
    )


@pytest.mark.parametrize("more", [{"requests_kcount": 5}, {"output_reasoning_mtok": 3}, {"a_new_kind_of_fee": 1}])
def test_a_price_with_fees_that_are_not_counted_is_none(more: dict[str, float]) -> None:
    assert listed_price(model_info(listed(input_mtok=1, output_mtok=2, **more)), {}, NOW) is None


def test_costs_are_those_that_the_package_itself_reckons() -> None:
    draw = random.Random(1)
    tiered = 0
    for provider in providers:
        for name, model in models_by_name(provider).items():
            found = listed_price(model, {}, NOW)
            if found is None:
                continue
            tiered += isinstance(found, TieredPrice)
            prompt = draw.choice([10, 1000, 200_000, 200_001, 900_000])
            cached = draw.randint(0, prompt)
            written, output = draw.randint(0, prompt - cached), draw.randint(0, 5000)
            usage = types.Usage(
                input_tokens=prompt, output_tokens=output, cache_read_tokens=cached, cache_write_tokens=written
            )
            theirs = model.calc_price(usage, provider, genai_request_timestamp=NOW).total_price
            ours = cost_usd(Usage(prompt, output, cached, written), found)
            assert ours == pytest.approx(float(theirs), abs=1e-9), f"{provider.id}/{name}"
    assert tiered


def test_nothing_is_fetched() -> None:
    program = """
import socket, sys, threading
def refuse(*arguments, **named):
    raise AssertionError("the network is used")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = socket.create_connection = refuse
from transforms.llm.price_table import find_price
from transforms.settings import Model
assert "genai_prices" not in sys.modules
assert find_price(Model(provider="openai", name="gpt-4o-mini")) is not None
assert find_price(Model(provider="openai", name="unknown")) is None
assert threading.active_count() == 1
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
