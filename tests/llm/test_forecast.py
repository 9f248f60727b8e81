"""What the next call may cost."""

import pytest

from transforms.llm.forecast import Forecast, Size
from transforms.settings import Input, Model, Price, Task

PRICE = Price(input=1, output=10)


def forecast(price: Price = PRICE, schema: dict[str, str] | None = None, **parameters: object) -> Forecast:
    task = Task(system="Be brief.", prompt="Review: {text}", schema=schema)
    return Forecast(task, Input(path="x", text="review"), Model(parameters=parameters), price)


def test_the_length_of_a_request() -> None:
    assert forecast().size({"review": "good"}) == Size(len("Be brief.Review: good"))
    assert forecast(schema={"type": "object"}).size({}) == Size(len('Be brief.Review: {"type": "object"}'))


@pytest.mark.parametrize(
    ("parameters", "output"),
    [({}, 256), ({"max_tokens": 50}, 50), ({"max_completion_tokens": 900, "max_tokens": 5}, 900)],
)
def test_the_first_guess_is_high(parameters: dict[str, int], output: int) -> None:
    assert forecast(**parameters).cost_usd(Size(100)) == pytest.approx((100 * 1 + output * 10) / 1e6)


def test_a_dear_cache_is_reckoned_with() -> None:
    price = Price(input=1, output=10, cached_input=0.1, cache_write=1.25)
    assert forecast(price).cost_usd(Size(100)) == pytest.approx((125 + 2560) / 1e6)


def test_what_was_seen_takes_the_place_of_the_guess() -> None:
    learning = forecast()
    for _ in range(29):
        learning.learn(100, 20, 8)
    assert learning.cost_usd(Size(100)) == pytest.approx((100 + 2560) / 1e6)
    learning.learn(100, 40, 6)
    assert learning.cost_usd(Size(100)) == pytest.approx((50 + 160) / 1e6)
    assert learning.cost_usd(Size(1000)) == pytest.approx((500 + 160) / 1e6)


def test_more_than_the_guess_counts_at_once() -> None:
    learning = forecast()
    learning.learn(100, 300, 150)
    assert learning.cost_usd(Size(100)) == pytest.approx((375 + 3000) / 1e6)


def test_a_row_that_may_be_asked_again_may_cost_as_much_again() -> None:
    task = Task(prompt="{text}", on_invalid="retry", max_reasks=2)
    learning = Forecast(task, Input(path="x"), Model(parameters={"max_tokens": 50}), PRICE)
    assert learning.cost_usd(Size(100)) == pytest.approx(3 * (100 + 500) / 1e6)
    for _ in range(30):
        learning.learn(100, 60, 30, answers=3)
    assert learning.cost_usd(Size(100)) == pytest.approx(3 * (25 + 200) / 1e6)


def test_an_answer_is_not_expected_to_pass_its_limit() -> None:
    learning = forecast(max_tokens=50)
    for _ in range(30):
        learning.learn(100, 20, 40)
    assert learning.cost_usd(Size(0)) == pytest.approx(500 / 1e6)


def test_a_rows_own_limit_goes_before_the_models() -> None:
    task = Task(prompt="{text}", parameters_from={"max_tokens": "n"}, examples=[{"input": "abc", "answer": "de"}])
    mine = Forecast(task, Input(path="x"), Model(parameters={"max_tokens": 50}), PRICE)
    size = mine.size({"text": "x" * 95, "n": 7})
    assert size == Size(100, 7)
    assert mine.cost_usd(size) == pytest.approx((100 + 70) / 1e6)
    assert mine.cost_usd(mine.size({"text": "x" * 95})) == pytest.approx((100 + 500) / 1e6)
    for _ in range(30):
        mine.learn(100, 20, 7)
    assert mine.cost_usd(Size(0, 10)) == pytest.approx(100 / 1e6)
    assert mine.cost_usd(Size(0, 90)) == pytest.approx(140 / 1e6)


def test_an_image_is_reckoned_with() -> None:
    mine = Forecast(Task(prompt="{text}", images="photo"), Input(path="x"), Model(provider="openai", name="m"), PRICE)
    assert mine.size({"text": "abc", "photo": "http://x/a"}) == Size(4003)
