"""From a row to its answer, over HTTP."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from transforms.llm.caller import Caller
from transforms.llm.client import Client
from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import AccountError, RowError, Stopped, TransientError
from transforms.llm.limits import Gate
from transforms.settings import Input, Limits, Model, Task

SCHEMA = {"type": "object", "properties": {"label": {"enum": ["a", "b"]}}, "required": ["label"]}
PRICE = {"input": 3, "output": 15, "cached_input": 0.3}


def caller(client: Client, time: Any, schema: Any = None, **changes: Any) -> Caller:
    task = Task(system="You label {kind}.", prompt="Label: {text}", schema=schema)
    model = Model(provider="openai", name="m", price=PRICE)
    gate = Gate(None, 0.8, stop=time.stop, clock=time.clock)
    input = Input(path="x", text=changes.pop("text", None))
    return Caller(task, input, model, Limits(**changes), client=client, gate=gate)


def test_an_answer(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [server.error(503), server.reply(body=server.chat('{"label": "a"}'))]
    answer = caller(client(), time, SCHEMA).ask({"text": "{x}", "kind": "reviews"})
    assert answer.values == {"label": "a"}
    assert answer.completion.text == '{"label": "a"}'
    assert answer.attempts == 2
    assert answer.latency_ms > 0
    assert answer.cost_usd == pytest.approx((20 * 3 + 5 * 15) / 1e6)
    assert server.requests[1]["messages"] == [
        {"role": "system", "content": "You label reviews."},
        {"role": "user", "content": "Label: {x}"},
    ]


def test_the_column_that_text_stands_for(server: Any, client: Callable[..., Client], time: Any) -> None:
    caller(client(), time, text="review").ask({"review": "r", "text": "t"})
    assert server.requests[0]["messages"][1]["content"] == "Label: r"


def test_an_unusable_answer_is_billed_and_not_repeated(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [server.error(500), server.reply(body=server.chat('{"label": "c"}'))]
    ask = caller(client(), time, SCHEMA)
    with pytest.raises(RowError) as caught:
        ask.ask({"text": "x"})
    error = caught.value
    assert (error.reason, error.attempts, len(server.requests)) == ("schema_mismatch", 2, 2)
    assert error.completion is not None
    assert ask.cost(error.completion) == pytest.approx(0.000135)
    assert ask.cost(None) is None


@pytest.mark.parametrize("attempts", [1, 3])
def test_the_server_sees_exactly_max_attempts(
    server: Any, client: Callable[..., Client], time: Any, attempts: int
) -> None:
    server.steps = [server.error(503)]
    with pytest.raises(TransientError) as caught:
        caller(client(), time, max_attempts=attempts).ask({"text": "x"})
    assert (caught.value.attempts, len(server.requests)) == (attempts, attempts)


def test_an_account_out_of_money_is_asked_once(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [server.error(429, "insufficient_quota", retry_after="1")]
    with pytest.raises(AccountError) as caught:
        caller(client(), time).ask({"text": "x"})
    assert (caught.value.reason, len(server.requests), time.waits) == ("quota_exhausted", 1, [])


class Broken:
    """A client with a bug that one row brings out."""

    def __init__(self, text: Any = "A") -> None:
        self.text = text

    def complete(self, system: str, user: str) -> Completion:
        if "bad" in user:
            raise KeyError("choices")
        return Completion(self.text, usage=Usage(1, 1))

    def close(self) -> None:
        pass


def test_a_bug_is_one_rows_failure(time: Any) -> None:
    ask = caller(Broken(), time)
    rows = [{"text": f"{'bad' if number == 3 else 'good'} {number}"} for number in range(10)]

    def outcome(row: dict[str, str]) -> str:
        try:
            return str(ask.ask(row).completion.text)
        except RowError as error:
            return f"{error.attempts} {error}"

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(outcome, rows))
    assert found == ["A"] * 3 + ["1 bad_response: unexpected KeyError: 'choices'"] + ["A"] * 6


def test_a_bug_of_the_parser_keeps_what_was_billed(time: Any) -> None:
    with pytest.raises(RowError) as caught:
        caller(Broken(text=5), time).ask({"text": "x"})
    assert caught.value.reason == "bad_response"
    assert caught.value.attempts == 1
    assert caught.value.completion == Completion(5, usage=Usage(1, 1))  # type: ignore[arg-type]


def test_a_row_that_cannot_be_rendered_makes_no_call(time: Any) -> None:
    class Odd:
        def __str__(self) -> str:
            raise ZeroDivisionError

    with pytest.raises(RowError) as caught:
        caller(Broken(), time).ask({"text": Odd()})
    assert (caught.value.reason, caught.value.attempts) == ("bad_response", 0)


def test_a_stop_leaves_the_row_undone(time: Any) -> None:
    time.stop.set()
    with pytest.raises(Stopped):
        caller(Broken(), time).ask({"text": "x"})


def test_each_row_gets_its_own_answer(server: Any, client: Callable[..., Client], time: Any) -> None:
    """The server echoes; every third row fails at first, numbers that end in 7 are refused."""
    seen: set[int] = set()

    def echo(handler: Any) -> None:
        number = int(handler.sent["messages"][1]["content"].removeprefix("Label: "))
        first = number not in seen
        seen.add(number)
        if number % 10 == 7:
            server.error(400, "bad_row")(handler)
        elif number % 3 == 0 and first:
            server.error(500)(handler)
        else:
            server.reply(body=server.chat(f"echo:{number}"))(handler)

    server.steps = [echo]
    ask = caller(client(pool_size=16), time)

    def outcome(number: int) -> str:
        try:
            return str(ask.ask({"text": str(number)}).completion.text)
        except RowError as error:
            return f"{error.reason} {error.attempts}"

    with ThreadPoolExecutor(16) as pool:
        found = list(pool.map(outcome, range(200)))
    assert found == ["bad_request 1" if number % 10 == 7 else f"echo:{number}" for number in range(200)]
