"""What a request costs."""

import pytest

from transforms.llm.completion import Usage
from transforms.llm.prices import TieredPrice, cost_usd
from transforms.settings import Price

PRICE = Price(input=3, output=15, cached_input=0.3, cache_write=3.75)


@pytest.mark.parametrize(
    ("usage", "dollars"),
    [
        (Usage(3 + 12304 + 0, 550, 0, 12304), 0.054399),  # Anthropic's three amounts, summed by its client
        (Usage(100 + 700 + 200, 0, 200, 700), 0.002985),
        (Usage(1000, 100, 800), 0.00234),  # OpenAI's cached tokens are a part of the prompt
    ],
)
def test_each_token_is_billed_once(usage: Usage, dollars: float) -> None:
    assert cost_usd(usage, PRICE) == dollars


def test_cached_tokens_are_a_part_of_the_prompt() -> None:
    assert cost_usd(Usage(1000, 100, 800), PRICE) == pytest.approx(0.00234)


@pytest.mark.parametrize("cached", [None, 0])
def test_without_cached_tokens(cached: int | None) -> None:
    assert cost_usd(Usage(1000, 100, cached), PRICE) == pytest.approx(0.0045)


def test_cached_tokens_without_a_price_of_their_own_cost_as_the_others() -> None:
    assert cost_usd(Usage(1000, 100, 800), Price(input=3, output=15)) == pytest.approx(0.0045)


def test_more_cached_than_sent_is_never_a_refund() -> None:
    assert cost_usd(Usage(10, 0, 800), PRICE) == pytest.approx(0.000003)


@pytest.mark.parametrize("usage", [Usage(), Usage(None, 5), Usage(20, None)])
def test_unknown_tokens_cost_an_unknown_amount(usage: Usage) -> None:
    assert cost_usd(usage, PRICE) is None


def test_an_unknown_price_is_an_unknown_amount() -> None:
    assert cost_usd(Usage(1, 1), None) is None


def test_free_is_not_unknown() -> None:
    assert cost_usd(Usage(1000, 100), Price(input=0, output=0)) == 0.0


def test_cache_writes_without_a_price_of_their_own_cost_as_the_others() -> None:
    assert cost_usd(Usage(1000, 0, 0, 700), Price(input=3, output=15)) == 0.003


def test_more_written_than_sent_is_never_a_refund() -> None:
    assert cost_usd(Usage(10, 0, 4, 800), PRICE) == pytest.approx((4 * 0.3 + 6 * 3.75) / 1e6)


@pytest.mark.parametrize(("prompt_tokens", "dollars"), [(200_000, 0.6), (200_001, 1.200006), (300_001, 3.00001)])
def test_the_length_of_the_prompt_chooses_the_tier(prompt_tokens: int, dollars: float) -> None:
    tiers = ((200_000, Price(input=6, output=30)), (300_000, Price(input=10, output=30)))
    price = TieredPrice(input=3, output=15, tiers=tiers)
    assert cost_usd(Usage(prompt_tokens, 0), price) == dollars
