"""The client of Anthropic's Messages API against a server on the loopback interface."""

from collections.abc import Callable
from typing import Any

import pytest

from transforms.llm.anthropic import AnthropicClient
from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import AccountError, CallError, FormatRefused, RowError, TransientError
from transforms.llm.prompt import Prompt

Make = Callable[..., AnthropicClient]
SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}}


def message(*content: dict[str, Any], stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    """The body of an answer."""
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "c-1",
        "content": list(content or ({"type": "text", "text": "A"},)),
        "stop_reason": stop,
        "usage": {"input_tokens": 20, "output_tokens": 5},
        **more,
    }


def problem(kind: str, text: str = "no") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}


@pytest.fixture
def make(server: Any, client: Callable[..., AnthropicClient]) -> Make:
    server.steps = [server.reply(body=message())]
    return lambda **changes: client("anthropic", **{"base_url": server.url.removesuffix("/v1"), **changes})


def answer(server: Any, make: Make, body: Any, **changes: Any) -> Completion:
    server.steps = [server.reply(body=body)]
    return make(**changes).complete(Prompt.of("", "x"))


def failure(client: AnthropicClient) -> CallError:
    with pytest.raises(CallError) as caught:
        client.complete(Prompt.of("", "x"))
    return caught.value


def test_an_answer(server: Any, make: Make) -> None:
    found = make(api_key="key-123").complete(Prompt.of("be brief", 'say "é"\n😀'))
    assert found == Completion("A", "c-1", "stop", Usage(20, 5))
    assert server.requests == [
        {
            "path": "/v1/messages",
            "model": "m",
            "max_tokens": 1024,
            "system": "be brief",
            "messages": [{"role": "user", "content": 'say "é"\n😀'}],
        }
    ]
    sent = server.headers[0]
    assert (sent["x-api-key"], sent["anthropic-version"]) == ("key-123", "2023-06-01")
    assert "authorization" not in sent


def test_what_is_left_out_and_what_is_set(server: Any, make: Make) -> None:
    one = make(model={"parameters": {"max_tokens": 9, "temperature": 0}}, base_url=server.url + "/")
    one.complete(Prompt.of("", "x"))
    sent = server.requests[0]
    assert (sent["path"], sent["max_tokens"], sent["temperature"]) == ("/v1/messages", 9, 0)
    assert "system" not in sent
    assert "x-api-key" not in server.headers[0]


@pytest.mark.parametrize("name", ["messages", "stream", "system"])
def test_parameters_that_change_what_an_answer_is(make: Make, name: str) -> None:
    with pytest.raises(ValueError, match=rf"model\.parameters\.{name}"):
        make(model={"parameters": {name: "x"}})


def test_an_answer_to_a_schema_is_a_tools_input(server: Any, make: Make) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "t", "input": {"label": "é \ud83d"}}
    body = message({"type": "text", "text": "Here it is."}, call, stop="tool_use")
    found = answer(server, make, body, json_schema=SCHEMA)
    assert (found.text, found.finish_reason, found.tool_calls) == ('{"label": "é \ufffd"}', "stop", False)
    sent = server.requests[0]
    assert sent["tools"] == [{"name": "t", "description": "Takes the answer.", "input_schema": SCHEMA}]
    assert sent["tool_choice"] == {"type": "tool", "name": "t", "disable_parallel_tool_use": True}


def test_a_tools_input_that_is_cut(server: Any, make: Make) -> None:
    body = message({"type": "tool_use", "id": "t1", "name": "t", "input": {}}, stop="max_tokens")
    assert answer(server, make, body, json_schema=SCHEMA).finish_reason == "length"


@pytest.mark.parametrize("changes", [{"structured_output": "off"}, {"parameters": {"tools": []}}])
def test_no_tool_where_none_is_wanted(server: Any, make: Make, changes: Any) -> None:
    make(json_schema=SCHEMA, model=changes).complete(Prompt.of("", "x"))
    assert "tool_choice" not in server.requests[0]
    assert not server.requests[0].get("tools")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}], "a"),
        ([{"type": "redacted_thinking", "data": "x"}], None),
        ([{"type": "text", "text": "\ud83d and 😀"}], "\ufffd and 😀"),
    ],
)
def test_content(server: Any, make: Make, content: Any, text: str | None) -> None:
    assert answer(server, make, message(*content)).text == text


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_use", "tool_calls"),
        ("pause_turn", "pause_turn"),
        (None, None),
    ],
)
def test_stop_reasons(server: Any, make: Make, stop: Any, finish: str | None) -> None:
    assert answer(server, make, message(stop=stop)).finish_reason == finish


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        (message(stop="refusal"), "A"),
        (message({"type": "thinking", "thinking": "hm"}, stop="refusal"), "the model refused to answer"),
        (message(stop="refusal", stop_details={"type": "refusal", "explanation": "policy"}), "policy"),
    ],
)
def test_a_refusal(server: Any, make: Make, body: Any, refusal: str) -> None:
    assert answer(server, make, body).refusal == refusal


def test_another_tool_is_no_answer(server: Any, make: Make) -> None:
    found = answer(server, make, message({"type": "tool_use", "name": "search", "input": {}}, stop="tool_use"))
    assert (found.text, found.tool_calls) == (None, True)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        # input_tokens leaves the cache out; the prompt is all of it.
        (
            {"input_tokens": 3, "cache_creation_input_tokens": 12304, "cache_read_input_tokens": 0, "output_tokens": 9},
            Usage(12307, 9, 0, 12304),
        ),
        (
            {"input_tokens": 100, "cache_creation_input_tokens": 700, "cache_read_input_tokens": 200},
            Usage(1000, None, 200, 700),
        ),
        ({"input_tokens": 3, "cache_read_input_tokens": None, "output_tokens": 9}, Usage(3, 9)),
        ({"cache_read_input_tokens": 5, "output_tokens": 9}, Usage(None, 9, 5)),
        (None, Usage()),
        ("x", Usage()),
    ],
)
def test_usage(server: Any, make: Make, usage: Any, expected: Usage) -> None:
    assert answer(server, make, message(usage=usage)).usage == expected


@pytest.mark.parametrize(
    ("status", "kind", "expected", "reason"),
    [
        (400, "invalid_request_error", RowError, "bad_request"),
        (401, "authentication_error", AccountError, "auth"),
        (402, "billing_error", AccountError, "quota_exhausted"),
        (403, "permission_error", AccountError, "auth"),
        (404, "not_found_error", AccountError, "config_rejected"),
        (413, "request_too_large", RowError, "request_too_large"),
        (429, "rate_limit_error", TransientError, "rate_limited"),
        (500, "api_error", TransientError, "upstream_error"),
        (504, "timeout_error", TransientError, "upstream_error"),
        (529, "overloaded_error", TransientError, "upstream_error"),
        (418, "new_error", RowError, "bad_request"),
        (503, "new_error", TransientError, "upstream_error"),
    ],
)
def test_errors(server: Any, make: Make, status: int, kind: str, expected: type[CallError], reason: str) -> None:
    server.steps = [server.reply(status, problem(kind), retry_after="7")]
    error = failure(make())
    assert (type(error), error.reason, error.http_status) == (expected, reason, status)
    assert error.message == f"HTTP {status}: no"
    assert error.retry_after == (7 if isinstance(error, TransientError) else None)


@pytest.mark.parametrize(
    ("kind", "text", "reason"),
    [
        ("invalid_request_error", "Your credit balance is too low to access the Anthropic API.", "quota_exhausted"),
        ("invalid_request_error", "messages: text is empty", "bad_request"),
        ("request_too_large", "credit balance is too low", "request_too_large"),
    ],
)
def test_an_empty_account_is_told_by_its_words(server: Any, make: Make, kind: str, text: str, reason: str) -> None:
    server.steps = [server.reply(400, problem(kind, text))]
    assert failure(make()).reason == reason


@pytest.mark.parametrize(
    ("body", "kind", "reason"),
    [
        (problem("overloaded_error"), TransientError, "upstream_error"),
        (problem("rate_limit_error"), TransientError, "rate_limited"),
        (problem("authentication_error"), AccountError, "auth"),
        (problem("new_error"), TransientError, "upstream_error"),
        ({}, TransientError, "bad_response"),
        ([], TransientError, "bad_response"),
        ({"content": "A"}, TransientError, "bad_response"),
        ({"content": ["A"]}, TransientError, "bad_response"),
    ],
)
def test_a_200_that_is_no_answer(server: Any, make: Make, body: Any, kind: type[CallError], reason: str) -> None:
    server.steps = [server.reply(body=body)]
    error = failure(make())
    assert (type(error), error.reason, error.http_status) == (kind, reason, 200)


@pytest.mark.parametrize(
    ("status", "reason"),
    [(200, "bad_response"), (502, "upstream_error"), (401, "auth"), (404, "config_rejected")],
)
def test_a_proxys_page(server: Any, make: Make, status: int, reason: str) -> None:
    server.steps = [server.reply(status, raw=b"<title>Just a moment</title>", content_type="text/html")]
    error = failure(make())
    assert error.reason == reason
    assert "Just a moment" in error.message


def test_a_tool_that_is_refused_is_left_out(server: Any, make: Make) -> None:
    """As with extended thinking, which no tool can be forced beside; that is said in words only."""
    server.steps = [server.reply(400, problem("invalid_request_error")), server.reply(body=message())]
    one = make(json_schema=SCHEMA)
    assert isinstance(failure(one), FormatRefused)
    assert one.complete(Prompt.of("", "x")).notes == ("structured_output_fallback",)
    assert one.complete(Prompt.of("", "y")).text == "A"
    assert ["tools" in sent for sent in server.requests] == [True, False, False]
