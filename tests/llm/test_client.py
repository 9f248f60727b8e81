"""Which client the settings ask for, and its key."""

import sys
import types
from typing import Any, ClassVar

import pytest

from transforms.llm.client import api_key, connect
from transforms.llm.secrets import masked
from transforms.settings import Limits, Model, Task

SCHEMA = {"type": "object", "properties": {"label": {"type": "string"}}}


def openai(**changes: Any) -> Model:
    return Model(provider="openai", name="m", **changes)


def test_the_key_is_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", " k-1\n")
    assert api_key(openai(api_key_env="MY_KEY", base_url="http://x/v1")) == "k-1"


def test_openais_own_endpoint_has_a_default_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k-2")
    assert api_key(openai()) == "k-2"
    assert api_key(openai(base_url="http://x/v1")) is None  # a key is sent nowhere else unasked
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ValueError, match=r"model\.api_key_env: .* OPENAI_API_KEY is not set"):
        api_key(openai())


@pytest.mark.parametrize("value", [None, "", " \n"])
def test_a_variable_that_is_not_set(monkeypatch: pytest.MonkeyPatch, value: str | None) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(ValueError, match=r"^model\.api_key_env: the environment variable MY_KEY is not set$"):
        api_key(openai(api_key_env="MY_KEY"))


@pytest.mark.parametrize("value", ["ключ-ключ", "a\nb-secret"])
def test_a_key_that_no_header_can_hold_is_not_quoted(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(ValueError, match="MY_KEY") as caught:
        api_key(openai(api_key_env="MY_KEY"))
    assert value not in str(caught.value)


def test_an_endpoint(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "key-of-the-test")
    model = openai(base_url=server.url + "/", api_key_env="MY_KEY")
    client = connect(Task(name="labels", prompt="x", schema=SCHEMA), model, Limits(), pool_size=2)
    assert client.complete("", "x").text == "A"
    client.close()
    assert server.headers[0]["authorization"] == "Bearer key-of-the-test"
    assert server.requests[0]["response_format"]["json_schema"]["name"] == "labels"
    assert "temperature" not in server.requests[0]
    assert masked("key-of-the-test") == "***"


class FakeServer:
    """What embedded.py offers, without a model."""

    url = ""
    made: ClassVar[list["FakeServer"]] = []

    def __init__(self, path: str, *, slots: int) -> None:
        self.path, self.slots, self.closed = path, slots, False
        self.base_url = self.url
        self.made.append(self)

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def embedded(server: Any, monkeypatch: pytest.MonkeyPatch) -> type[FakeServer]:
    module = types.ModuleType("transforms.llm.embedded")
    module.EmbeddedServer = FakeServer  # type: ignore[attr-defined]
    module.find_model = lambda path: path or "/models/small.gguf"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transforms.llm.embedded", module)
    monkeypatch.setattr(FakeServer, "made", [])
    monkeypatch.setattr(FakeServer, "url", server.url)
    return FakeServer


def test_the_embedded_model(server: Any, embedded: type[FakeServer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:1")
    model = Model(parameters={"max_tokens": 9})
    client = connect(Task(prompt="x"), model, Limits(), pool_size=4)
    assert client.complete("", "x").text == "A"
    client.close()
    (started,) = embedded.made
    assert (started.path, started.slots, started.closed) == ("/models/small.gguf", 4, True)
    sent = server.requests[0]
    assert (sent["model"], sent["temperature"], sent["max_tokens"]) == ("small", 0, 9)
    assert "authorization" not in server.headers[0]


def test_an_embedded_server_does_not_outlive_a_failed_start(embedded: type[FakeServer]) -> None:
    with pytest.raises(ValueError, match=r"model\.parameters\.stream"):
        connect(Task(prompt="x"), Model(parameters={"stream": True}), Limits(), pool_size=4)
    assert [server.closed for server in embedded.made] == [True]
