"""One request about several rows, over HTTP."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from transforms.llm.caller import Answer, Caller
from transforms.llm.client import Client
from transforms.llm.completion import Usage
from transforms.llm.endpoint import LiveEndpoint
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import AccountError, CallError, RowError
from transforms.llm.gate import Gate
from transforms.llm.group_caller import GroupCaller, with_earlier
from transforms.settings import Input, Limits, Model, Task

SCHEMA = {"type": "object", "properties": {"label": {"enum": ["a", "b"]}}, "required": ["label"]}
ROWS = [{"text": "x" * 60}, {"text": "x" * 30}, {"text": "x" * 10}]


def group(client: Client, time: Any, schema: Any = SCHEMA, **limits: Any) -> GroupCaller:
    task = Task(prompt="{text}", schema=schema, records_per_call=3)
    model = Model(provider="openai", name="m", price={"input": 1, "output": 2})
    live = LiveEndpoint(client, Gate(max_in_flight=64))
    endpoints = Endpoints([live], stop=time.stop, clock=time.clock, wait=time.stop.wait)
    return GroupCaller(
        task, Input(path="x"), Caller(task, Input(path="x"), model, Limits(**limits), endpoints=endpoints)
    )


def labels(**answers: str) -> str:
    return json.dumps({key[1:]: {"label": label} for key, label in answers.items()})


def test_all_answered(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [server.error(503), server.reply(body=server.chat(labels(_1="a", _2="b", _3="a")))]
    found = group(client(json_schema=SCHEMA), time).ask(ROWS)
    answers = [each for each in found.outcomes if isinstance(each, Answer)]
    assert [each.values["label"] for each in answers] == ["a", "b", "a"]
    assert [each.usage for each in answers] == [Usage(12, 3), Usage(6, 1), Usage(2, 1)]
    assert [each.attempts for each in answers] == [2, 0, 0]
    assert [each.records for each in answers] == [3, 3, 3]
    assert [each.completion.text for each in answers] == ['{"label": "a"}', '{"label": "b"}', '{"label": "a"}']
    assert sum(each.cost_usd or 0 for each in answers) == pytest.approx(30e-6, abs=1e-12) == found.cost_usd
    sent = server.requests[1]
    assert list(sent["response_format"]["json_schema"]["schema"]["properties"]) == ["1", "2", "3"]
    assert sent["response_format"]["json_schema"]["strict"] is True
    assert list(json.loads(sent["messages"][-1]["content"])) == ["1", "2", "3"]


def test_a_row_without_an_answer_pays_its_share_all_the_same(
    server: Any, client: Callable[..., Client], time: Any
) -> None:
    server.steps = [server.reply(body=server.chat(labels(_1="a", _3="z")))]
    found = group(client(), time).ask(ROWS)
    assert isinstance(found.outcomes[0], Answer)
    missing, wrong = found.outcomes[1:]
    assert isinstance(missing, RowError)
    assert isinstance(wrong, RowError)
    assert (missing.reason, wrong.reason) == ("schema_mismatch", "schema_mismatch")
    assert (missing.usage, wrong.usage) == (Usage(6, 1), Usage(2, 1))
    assert missing.completion is not None
    assert wrong.completion is not None
    assert (missing.completion.text, wrong.completion.text) == (None, '{"label": "z"}')
    assert found.error is None


def test_nobody_has_an_answer(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [server.error(400, "content_filter")]
    found = group(client(), time).ask(ROWS)
    assert isinstance(found.error, RowError)
    assert [(each.reason, each.attempts) for each in found.outcomes if isinstance(each, CallError)] == [
        ("content_filter", 1),
        ("content_filter", 0),
        ("content_filter", 0),
    ]
    assert (found.usage, found.cost_usd, found.completions) == (Usage(), None, 0)

    server.steps = [server.reply(body=server.chat("no JSON"))]
    found = group(client(), time).ask(ROWS)
    assert [each.reason for each in found.outcomes if isinstance(each, CallError)] == ["invalid_json"] * 3
    assert sum(each.usage.prompt_tokens or 0 for each in found.outcomes) == 20


def test_an_account_error_is_nobodys_outcome(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [server.error(401)]
    with pytest.raises(AccountError):
        group(client(), time).ask(ROWS)


def test_texts_are_asked_for_by_a_schema_as_well(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [server.reply(body=server.chat('{"1": "A", "2": "B", "3": "C"}'))]
    found = group(client(), time, None).ask(ROWS)
    assert [each.completion.text for each in found.outcomes if isinstance(each, Answer)] == ["A", "B", "C"]
    assert server.requests[0]["response_format"]["json_schema"]["schema"]["properties"]["3"] == {"type": "string"}


def test_a_limit_of_the_answer_is_each_rows(server: Any, client: Callable[..., Client], time: Any) -> None:
    server.steps = [server.reply(body=server.chat(labels(_1="a", _2="b", _3="a")))]
    group(client(json_schema=SCHEMA, model={"parameters": {"max_tokens": 50, "seed": 1}}), time).ask(ROWS)
    assert (server.requests[0]["max_tokens"], server.requests[0]["seed"]) == (150, 1)


def test_anthropic_has_a_tool_with_all_keys(server: Any, client: Callable[..., Client], time: Any) -> None:
    block = {"type": "tool_use", "id": "1", "name": "t", "input": json.loads(labels(_1="a", _2="b", _3="a"))}
    body = {
        "model": "m",
        "content": [block],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 9, "output_tokens": 3},
    }
    server.steps = [server.reply(body=body)]
    found = group(client("anthropic", json_schema=SCHEMA), time).ask(ROWS)
    assert [each.values["label"] for each in found.outcomes if isinstance(each, Answer)] == ["a", "b", "a"]
    sent = server.requests[0]
    assert sent["tools"][0]["input_schema"]["required"] == ["1", "2", "3"]
    assert sent["max_tokens"] == 3072


def test_an_endpoint_without_schemas_is_asked_in_words(server: Any, client: Callable[..., Client], time: Any) -> None:
    refusal = server.error(400, message="unknown", param="response_format")
    server.steps = [refusal, refusal, server.reply(body=server.chat(labels(_1="a", _2="b", _3="a")))]
    found = group(client(json_schema=SCHEMA), time).ask(ROWS)
    assert [each.notes for each in found.outcomes] == [("structured_output_fallback",)] * 3
    assert "response_format" not in server.requests[2]


def test_what_was_paid_in_vain_is_added_to_the_last_outcome() -> None:
    def error(usage: Usage, completions: int, **more: Any) -> RowError:
        made = RowError("truncated", "cut")
        made.usage, made.completions = usage, completions
        for name, value in more.items():
            setattr(made, name, value)
        return made

    paid = error(Usage(10, 4, None), 1, cost_usd=1.0, attempts=3, notes=("maybe_billed", "answer_unwrapped"))
    free = error(Usage(), 0, attempts=1)
    answer = with_earlier([paid, free], Answer({}, None, 1, 5.0, 0.5, Usage(7, 1, 2)))  # type: ignore[arg-type]
    assert isinstance(answer, Answer)
    assert (answer.attempts, answer.usage, answer.cost_usd) == (5, Usage(17, 5, None), 1.5)
    assert answer.notes == ("maybe_billed", "asked_apart")
    last = with_earlier([paid], error(Usage(), 0, attempts=1))
    assert (last.attempts, last.usage, last.cost_usd) == (4, Usage(10, 4, None), 1.0)
    unknown = with_earlier([paid], error(Usage(1, 1), 1))
    assert (unknown.usage, unknown.cost_usd) == (Usage(11, 5), None)
