"""How many tokens a request will take."""

import pytest

from transforms.llm.amounts import Amounts
from transforms.llm.completion import Usage
from transforms.llm.estimate import TokenEstimate


@pytest.mark.parametrize(
    ("parameters", "answer"),
    [
        ({}, 256),
        ({"max_tokens": 40}, 40),
        ({"max_completion_tokens": 60, "max_tokens": 40}, 60),
        ({"max_tokens": 100_000}, 1024),
        ({"max_tokens": None}, 256),
        ({"max_tokens": "many"}, 256),
        ({"max_tokens": True}, 256),
        ({"max_tokens": 0}, 256),
    ],
)
def test_before_the_first_answer(parameters: dict[str, object], answer: int) -> None:
    estimate = TokenEstimate(parameters)
    assert estimate.amounts(400) == Amounts(1, 100 + answer, 100, answer)
    assert estimate.least(400) == Amounts(1, 100, 100, 0)


def test_the_first_answer_counts_more_than_the_guess() -> None:
    estimate = TokenEstimate({"max_tokens": 1000})
    estimate.learn(400, Usage(300, 20))
    assert estimate.amounts(400) == Amounts(1, 320, 300, 20)
    assert estimate.least(400) == estimate.amounts(400)


def test_the_average_follows() -> None:
    estimate = TokenEstimate({})
    for _ in range(200):
        estimate.learn(400, Usage(100, 20))
    for _ in range(200):
        estimate.learn(400, Usage(200, 80))
    amounts = estimate.amounts(400)
    assert amounts.input_tokens == pytest.approx(200, rel=0.05)
    assert amounts.output_tokens == pytest.approx(80, rel=0.05)


def test_what_is_not_known_teaches_nothing() -> None:
    estimate = TokenEstimate({})
    for characters, usage in ((400, Usage()), (400, Usage(100, None)), (0, Usage(100, 20))):
        estimate.learn(characters, usage)
    assert estimate.amounts(400) == Amounts(1, 356, 100, 256)
