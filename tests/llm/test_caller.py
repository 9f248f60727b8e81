"""From a row to its answer, over HTTP."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from transforms.llm.caller import Caller
from transforms.llm.client import Client
from transforms.llm.completion import Completion, Usage
from transforms.llm.endpoint import LiveEndpoint
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import AccountError, FormatRefused, RowError, Stopped, TransientError
from transforms.llm.gate import Gate
from transforms.llm.prompt import Prompt
from transforms.settings import Input, Limits, Model, Task

SCHEMA = {"type": "object", "properties": {"label": {"enum": ["a", "b"]}}, "required": ["label"]}
PRICE = {"input": 3, "output": 15, "cached_input": 0.3}


def caller(client: Client, time: Any, schema: Any = None, **changes: Any) -> Caller:
    again = {name: changes.pop(name) for name in ("on_invalid", "max_reasks", "on_truncated") if name in changes}
    task = Task(system="You label {kind}.", prompt="Label: {text}", schema=schema, **again)
    model = Model(provider="openai", name="m", price=PRICE)
    live = LiveEndpoint(client, Gate(max_in_flight=64))
    endpoints = Endpoints([live], stop=time.stop, clock=time.clock, wait=time.stop.wait)
    input = Input(path="x", text=changes.pop("text", None))
    return Caller(task, input, model, Limits(**changes), endpoints=endpoints)


def test_an_answer(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [server.error(503), server.reply(body=server.chat('{"label": "a"}'))]
    answer = caller(client(), time, SCHEMA).ask({"text": "{x}", "kind": "reviews"})
    assert answer.values == {"label": "a"}
    assert answer.completion.text == '{"label": "a"}'
    assert answer.attempts == 2
    assert answer.latency_ms > 0
    assert answer.cost_usd == pytest.approx((20 * 3 + 5 * 15) / 1e6)
    assert (answer.usage, answer.completions, answer.notes) == (Usage(20, 5), 1, ())
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
    assert (error.usage, error.completions, error.cost_usd) == (Usage(20, 5), 1, pytest.approx(0.000135))
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

    def complete(self, prompt: Prompt) -> Completion:
        if "bad" in prompt.messages:
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


GOOD, BAD = '{"label": "a"}', '{"label": "c"}'


def replies(server: Any, *texts: str, **more: Any) -> None:
    server.steps = [server.reply(body=server.chat(text, **more)) for text in texts]


@pytest.mark.parametrize("bad", [BAD, "no JSON", ""])
def test_an_answer_that_does_not_count_is_asked_for_again(
    server: Any, client: Callable[..., Client], time: Any, bad: str
) -> None:
    replies(server, bad, GOOD)
    answer = caller(client(), time, SCHEMA, on_invalid="retry").ask({"text": "x"})
    assert (answer.values, answer.attempts, answer.completions) == ({"label": "a"}, 2, 2)
    assert (answer.usage, answer.cost_usd) == (Usage(40, 10), pytest.approx(2 * 0.000135))
    assert answer.notes == ("reasked",)
    first, second = server.requests
    assert first == second  # the prompt does not grow


def test_it_is_asked_for_again_so_often_and_no_more(server: Any, client: Callable[..., Client], time: Any) -> None:
    replies(server, BAD)
    with pytest.raises(RowError) as caught:
        caller(client(), time, SCHEMA, on_invalid="retry", max_reasks=3).ask({"text": "x"})
    error = caught.value
    assert (error.reason, error.attempts, error.completions, len(server.requests)) == ("schema_mismatch", 4, 4, 4)
    assert (error.usage, error.cost_usd) == (Usage(80, 20), pytest.approx(4 * 0.000135))
    assert error.notes == ("reasked",) * 3


def test_a_sum_with_an_unknown_part_is_unknown(server: Any, client: Callable[..., Client], time: Any) -> None:
    known = {"prompt_tokens": 20, "completion_tokens": 5}
    server.steps = [
        server.reply(body=server.chat(text, usage=usage))
        for text, usage in ((BAD, {"prompt_tokens": 20, "completion_tokens": None}), (GOOD, known))
    ]
    answer = caller(client(), time, SCHEMA, on_invalid="retry").ask({"text": "x"})
    assert (answer.usage, answer.cost_usd, answer.completions) == (Usage(40, None), None, 2)


def test_what_would_be_the_same_again_is_not_asked_for_again(
    server: Any, client: Callable[..., Client], time: Any
) -> None:
    body = server.chat(GOOD)
    body["choices"][0]["finish_reason"] = "length"
    server.steps = [server.reply(body=body)]
    with pytest.raises(RowError, match="truncated"):
        caller(client(), time, SCHEMA, on_invalid="retry").ask({"text": "x"})
    assert len(server.requests) == 1


def test_a_second_answer_that_does_not_come_keeps_what_the_first_cost(
    server: Any, client: Callable[..., Client], time: Any
) -> None:
    server.steps = [server.reply(body=server.chat(BAD)), server.error(503)]
    with pytest.raises(TransientError) as caught:
        caller(client(), time, SCHEMA, on_invalid="retry", max_attempts=2).ask({"text": "x"})
    error = caught.value
    assert (error.reason, error.attempts, error.completions, error.usage) == ("upstream_error", 3, 1, Usage(20, 5))
    assert error.completion is not None
    assert error.completion.text == BAD


def test_a_stop_before_the_second_answer_keeps_the_first(server: Any, client: Callable[..., Client], time: Any) -> None:
    def answer_and_stop(handler: Any) -> None:
        time.stop.set()
        server.reply(body=server.chat(BAD))(handler)

    server.steps = [answer_and_stop]
    with pytest.raises(RowError) as caught:
        caller(client(), time, SCHEMA, on_invalid="retry").ask({"text": "x"})
    assert (caught.value.reason, caught.value.usage) == ("schema_mismatch", Usage(20, 5))


@pytest.mark.parametrize(
    ("length", "tokens", "notes"),
    [
        (90_000, 2051, ("prompt_maybe_truncated",)),
        (90_000, 12_000, ()),
        (90_000, None, ()),
        (900, 3, ()),
    ],
)
def test_a_prompt_of_which_too_little_was_read(
    server: Any, client: Callable[..., Client], time: Any, length: int, tokens: int | None, notes: tuple[str, ...]
) -> None:
    replies(server, "A", usage={"prompt_tokens": tokens, "completion_tokens": 5})
    assert caller(client(), time).ask({"text": "x" * length}).notes == notes


def test_notes_of_an_answer(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [
        server.error(524),
        server.error(400, param="response_format"),
        server.reply(body=server.chat(f"```json\n{GOOD}\n```")),
    ]
    answer = caller(client(json_schema=SCHEMA), time, SCHEMA).ask({"text": "x"})
    assert sorted(answer.notes) == ["answer_unwrapped", "maybe_billed", "structured_output_fallback"]
    assert (answer.attempts, answer.completions) == (3, 1)


def test_a_refused_format_is_none_of_the_attempts(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [server.error(400, param="response_format"), server.reply(body=server.chat(GOOD))]
    answer = caller(client(json_schema=SCHEMA), time, SCHEMA, max_attempts=1).ask({"text": "x"})
    assert (answer.values, answer.attempts) == ({"label": "a"}, 2)


def test_rows_that_all_get_no_answer_stop_the_run(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [server.reply(raw=b"<title>Sign in</title>", content_type="text/html")]
    ask = caller(client(), time, max_attempts=2, max_consecutive_failures=3)
    for _ in range(2):
        with pytest.raises(TransientError, match="bad_response"):
            ask.ask({"text": "x"})
    with pytest.raises(AccountError) as caught:
        ask.ask({"text": "x"})
    assert (caught.value.reason, caught.value.attempts, len(server.requests)) == ("endpoint_down", 2, 6)
    assert "Sign in" in caught.value.message


def test_answers_that_do_not_count_are_answers(server: Any, client: Callable[..., Client], time: Any) -> None:
    replies(server, BAD)
    ask = caller(client(), time, SCHEMA, max_consecutive_failures=2)
    for _ in range(5):
        with pytest.raises(RowError, match="schema_mismatch"):
            ask.ask({"text": "x"})


def test_an_endpoint_that_refuses_every_format_stops_the_run(time: Any) -> None:
    class Refusing(Broken):
        def complete(self, prompt: Prompt) -> Completion:
            raise FormatRefused("no", http_status=400)

    with pytest.raises(AccountError) as caught:
        caller(Refusing(), time).ask({"text": "x"})
    assert caught.value.reason == "config_rejected"


def test_an_account_that_refuses_a_reask_takes_no_paid_answer_from_the_row(
    server: Any, client: Callable[..., Client], time: Any
) -> None:
    server.steps = [server.reply(body=server.chat('{"label": "c"}')), server.error(401, message="no such key")]
    with pytest.raises(RowError) as caught:
        caller(client(), time, SCHEMA, on_invalid="retry").ask({"text": "x"})
    error = caught.value
    assert (error.reason, error.attempts, error.cost_usd) == ("schema_mismatch", 2, pytest.approx(0.000135))
    assert error.account is not None
    assert error.account.reason == "auth"


def test_a_text_that_was_cut_is_kept_with_a_flag(server: Any, client: Callable[..., Client], time: Any) -> None:
    body = server.chat("half a")
    body["choices"][0]["finish_reason"] = "model_length"
    server.steps = [server.reply(body=body)]
    answer = caller(client(), time, on_truncated="keep").ask({"text": "x"})
    assert (answer.completion.text, answer.completion.finish_reason) == ("half a", "length")
    assert answer.notes == ("answer_truncated",)
    with pytest.raises(RowError, match="truncated"):
        caller(client(), time).ask({"text": "x"})
