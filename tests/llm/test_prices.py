"""What a request costs."""

import pytest

from transforms.llm.completion import Usage
from transforms.llm.prices import cost_usd
from transforms.settings import Price

PRICE = Price(input=3, output=15, cached_input=0.3)


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
