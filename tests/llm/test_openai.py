"""The client against a server on the loopback interface."""

import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import AccountError, CallError, RowError, TransientError
from transforms.llm.openai import OpenAIClient
from transforms.llm.prompt import Prompt

Make = Callable[..., OpenAIClient]
SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}}


def failure(client: OpenAIClient) -> CallError:
    with pytest.raises(CallError) as caught:
        client.complete(Prompt.of("", "x"))
    return caught.value


def test_an_answer(server: Any, client: Make) -> None:
    found = client().complete(Prompt.of("be brief", 'say "é"\n😀'))
    assert found == Completion("A", "m-1", "stop", Usage(20, 5, None))
    assert server.requests == [
        {
            "path": "/v1/chat/completions",
            "model": "m",
            "messages": [
                {"role": "system", "content": "be brief"},
                {"role": "user", "content": 'say "é"\n😀'},
            ],
        }
    ]


def test_an_empty_system_message_is_left_out(server: Any, client: Make) -> None:
    client().complete(Prompt.of("", "x"))
    assert server.requests[0]["messages"] == [{"role": "user", "content": "x"}]


def test_headers(server: Any, client: Make) -> None:
    client(model={"headers": {"X-Team": "a"}}).complete(Prompt.of("", "x"))
    client(api_key="k-123").complete(Prompt.of("", "x"))
    plain, keyed = server.headers
    assert plain["x-team"] == "a"
    assert plain["user-agent"].startswith("paidonce/")
    assert plain["content-type"] == "application/json"
    assert "authorization" not in plain
    assert keyed["authorization"] == "Bearer k-123"


@pytest.mark.parametrize(
    ("mode", "schema", "sent"),
    [
        (
            "json_schema",
            SCHEMA,
            {"type": "json_schema", "json_schema": {"name": "t", "schema": SCHEMA, "strict": True}},
        ),
        ("json_object", SCHEMA, {"type": "json_object"}),
        ("off", SCHEMA, None),
        ("json_schema", None, None),
    ],
)
def test_response_format(server: Any, client: Make, mode: str, schema: Any, sent: Any) -> None:
    client(model={"structured_output": mode}, json_schema=schema).complete(Prompt.of("", "x"))
    assert server.requests[0].get("response_format") == sent


def test_parameters_go_into_the_body_and_win(server: Any, client: Make) -> None:
    parameters = {"temperature": 0, "stop": ["}"], "model": "other", "response_format": {"type": "text"}}
    client(model={"parameters": parameters}, json_schema=SCHEMA).complete(Prompt.of("", "x"))
    assert {name: server.requests[0][name] for name in parameters} == parameters


@pytest.mark.parametrize("name", ["messages", "stream", "n"])
def test_parameters_that_change_what_an_answer_is(client: Make, name: str) -> None:
    with pytest.raises(ValueError, match=rf"model\.parameters\.{name}"):
        client(model={"parameters": {name: 1}})


def test_parameters_that_json_cannot_hold(client: Make) -> None:
    with pytest.raises(ValueError, match=r"model\.parameters"):
        client(model={"parameters": {"temperature": float("nan")}})


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://x/v1", "http://", "http://[::1/v1", ""])
def test_a_base_url_that_is_none(client: Make, url: str) -> None:
    with pytest.raises(ValueError, match=r"model\.base_url"):
        client(base_url=url)


def test_a_header_that_http_does_not_allow_is_not_quoted(client: Make) -> None:
    with pytest.raises(ValueError, match=r"model\.headers") as caught:
        client(model={"headers": {"X-Key": "hidden\nvalue"}})
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", ""),
        (None, None),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ([{"type": "image"}], None),
        ("\ud83d and 😀", "\ufffd and 😀"),
    ],
)
def test_content(server: Any, client: Make, content: Any, text: str | None) -> None:
    server.steps = [server.reply(body=server.chat(content))]
    assert client().complete(Prompt.of("", "x")).text == text


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, Usage()),
        ({}, Usage()),
        ({"prompt_tokens": 20, "completion_tokens": None}, Usage(20, None)),
        ({"prompt_tokens": 0, "completion_tokens": 5, "prompt_tokens_details": None}, Usage(0, 5)),
        ({"prompt_tokens": 20, "prompt_tokens_details": {"cached_tokens": 8}}, Usage(20, None, 8)),
        ({"prompt_tokens": "20", "completion_tokens": -1, "prompt_tokens_details": []}, Usage()),
        ({"prompt_tokens": True, "completion_tokens": 10**30}, Usage()),
        ("none", Usage()),
    ],
)
def test_usage(server: Any, client: Make, usage: Any, expected: Usage) -> None:
    server.steps = [server.reply(body=server.chat(usage=usage))]
    assert client().complete(Prompt.of("", "x")).usage == expected


def test_usage_missing(server: Any, client: Make) -> None:
    body = server.chat()
    del body["usage"]
    server.steps = [server.reply(body=body)]
    assert client().complete(Prompt.of("", "x")).usage == Usage()


def test_refusal_and_tool_calls(server: Any, client: Make) -> None:
    body = server.chat(None)
    body["choices"][0]["message"].update(refusal="no", tool_calls=[{"id": "1"}])
    body["choices"][0]["finish_reason"] = "tool_calls"
    server.steps = [server.reply(body=body)]
    found = client().complete(Prompt.of("", "x"))
    assert (found.text, found.refusal, found.tool_calls) == (None, "no", True)
    body["choices"][0]["message"] = {"content": [{"type": "refusal", "refusal": "part"}]}
    server.steps = [server.reply(body=body)]
    assert client().complete(Prompt.of("", "x")).refusal == "part"


@pytest.mark.parametrize(
    "body",
    [
        [],
        "x",
        1,
        {},
        {"choices": []},
        {"choices": None},
        {"choices": {"0": 1}},
        {"choices": [None]},
        {"choices": [{}]},
        {"choices": [{"message": "x"}]},
        {"choices": [{"message": {"content": 5}}]},
        {"choices": [{"message": {"content": ["x"]}}]},
    ],
)
def test_a_200_of_another_shape(server: Any, client: Make, body: Any) -> None:
    server.steps = [server.reply(body=body)]
    error = failure(client())
    assert (type(error), error.reason, error.http_status) == (TransientError, "bad_response", 200)


@pytest.mark.parametrize("raw", [b"", b"null", b"{", b"\xff\xfe{", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"])
def test_a_200_that_is_not_json(server: Any, client: Make, raw: bytes) -> None:
    server.steps = [server.reply(raw=raw)]
    assert failure(client()).reason == "bad_response"


def test_a_page_with_200_says_what_it_was(server: Any, client: Make) -> None:
    page = b"<!DOCTYPE html><html><head><title>Just a moment</title></head>\x00\x1b[2J"
    server.steps = [server.reply(raw=page, content_type="text/html; charset=utf-8")]
    error = failure(client())
    assert error.message.startswith("HTTP 200 text/html; charset=utf-8: <!DOCTYPE html>")
    assert "Just a moment" in error.message
    assert "\x1b" not in error.message


@pytest.mark.parametrize("where", ["body", "choice"])
def test_an_error_inside_a_200(server: Any, client: Make, where: str) -> None:
    body = server.chat()
    (body if where == "body" else body["choices"][0])["error"] = {"code": 502, "message": "upstream"}
    server.steps = [server.reply(body=body)]
    error = failure(client())
    assert (error.reason, error.http_status) == ("upstream_error", 502)


def test_an_error_with_its_status_and_pause(server: Any, client: Make) -> None:
    server.steps = [server.error(429, "rate_limit_exceeded", "slow down", retry_after="1.5")]
    error = failure(client())
    assert (error.reason, error.http_status, error.retry_after) == ("rate_limited", 429, 1.5)
    assert error.message == "HTTP 429: slow down"


def test_a_redirect_is_not_followed(server: Any, client: Make) -> None:
    server.steps = [server.error(302, location=server.url + "/elsewhere"), server.reply()]
    error = failure(client(api_key="secret-key"))
    assert (type(error), error.reason) == (AccountError, "config_rejected")
    assert "/elsewhere" in error.message
    assert len(server.requests) == 1


def test_the_key_stays_out_of_messages(server: Any, client: Make) -> None:
    server.steps = [server.error(401, "invalid_api_key", "Incorrect API key: very-secret-key")]
    assert failure(client(api_key="very-secret-key")).message == "HTTP 401: Incorrect API key: ***"


WHOLE = json.dumps({"choices": [{"message": {"content": "half"}}]}).encode()


@pytest.mark.parametrize(
    "start",
    [
        b"",
        # Valid JSON: only the length tells that there is more.
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 5000\r\n\r\n" + WHOLE,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n" % (len(WHOLE), WHOLE),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n%x\r\n%s" % (len(WHOLE) + 9, WHOLE),
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nabcd",
        b"nonsense\r\n\r\n",
    ],
)
def test_a_response_that_is_cut_or_broken(server: Any, client: Make, start: bytes) -> None:
    server.steps = [server.cut(start), server.reply()]
    one = client()
    error = failure(one)
    assert (type(error), error.reason) == (TransientError, "transport")
    assert one.complete(Prompt.of("", "x")).text == "A"  # on a fresh connection
    assert server.connections == 2


def test_a_response_that_is_cut_in_its_headers(server: Any, client: Make) -> None:
    server.steps = [server.cut(b"HTTP/1.1 200 OK\r\ncontent-le")]
    error = failure(client())  # to http.client that is an empty body without a length
    assert (type(error), error.reason) == (TransientError, "bad_response")


def test_a_reset_connection(server: Any, client: Make) -> None:
    server.steps = [server.reset]
    error = failure(client())
    assert (error.reason, error.retryable, error.http_status) == ("transport", True, None)
    assert "ConnectionResetError" in error.message


def test_a_connection_that_the_server_has_closed_meanwhile(server: Any, client: Make) -> None:
    one = client()
    closed = threading.Event()

    def answer_then_close(handler: Any) -> None:
        server.reply()(handler)
        handler.wfile.flush()
        handler.connection.shutdown(socket.SHUT_RDWR)
        handler.close_connection = True
        closed.set()

    server.steps = [answer_then_close, server.reply()]
    one.complete(Prompt.of("", "x"))
    assert closed.wait(5)
    assert one.complete(Prompt.of("", "x")).text == "A"


def test_nobody_listens(client: Make) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    error = failure(client(base_url=f"http://127.0.0.1:{port}/v1"))
    assert (error.reason, error.retryable) == ("transport", True)
    assert "refused" in error.message


def test_no_answer_in_time(server: Any, client: Make) -> None:
    server.steps = [server.hang]
    assert failure(client(limits={"timeout_seconds": 0.1})).reason == "timeout"


def test_an_answer_that_stops_in_the_middle(server: Any, client: Make) -> None:
    def stall(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{")
        handler.wfile.flush()
        server.hang(handler)

    server.steps = [stall]
    assert failure(client(limits={"timeout_seconds": 0.1})).reason == "timeout"


def test_connections_are_kept_and_shared(server: Any, client: Make) -> None:
    one = client(pool_size=8)
    server.steps = [server.reply()]
    with ThreadPoolExecutor(8) as pool:
        texts = list(pool.map(lambda number: one.complete(Prompt.of("", str(number))).text, range(200)))
    assert texts == ["A"] * 200
    assert server.connections <= 8
    assert sorted(int(body["messages"][0]["content"]) for body in server.requests) == list(range(200))


def test_the_environments_proxy_is_used_but_not_for_a_server_of_our_own(
    server: Any, client: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", server.url.removesuffix("/v1"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    client(base_url="http://model.invalid/v1").complete(Prompt.of("", "x"))
    assert server.requests[-1]["path"] == "http://model.invalid/v1/chat/completions"
    client(use_environment=False).complete(Prompt.of("", "x"))
    assert server.requests[-1]["path"] == "/v1/chat/completions"


def test_netrc_does_not_replace_the_key(
    server: Any, client: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    client(api_key="k-123").complete(Prompt.of("", "x"))
    assert server.headers[0]["authorization"] == "Bearer k-123"


def test_a_row_that_is_too_large(server: Any, client: Make) -> None:
    server.steps = [server.error(400, "context_length_exceeded")]
    error = failure(client())
    assert (type(error), error.reason, error.retryable) == (RowError, "request_too_large", False)
