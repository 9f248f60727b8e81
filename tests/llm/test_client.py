"""Which client the settings ask for, and its key."""

import json
import sys
import types
from typing import Any, ClassVar

import pytest

from transforms.llm.client import api_key, connect, draft
from transforms.llm.errors import RowError, TransientError
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


@pytest.mark.parametrize(
    ("provider", "variable"), [("anthropic", "ANTHROPIC_API_KEY"), ("azure", "AZURE_OPENAI_API_KEY")]
)
def test_other_providers_have_theirs(monkeypatch: pytest.MonkeyPatch, provider: str, variable: str) -> None:
    url = "https://x.openai.azure.com" if provider == "azure" else None
    model = Model(provider=provider, name="m", base_url=url)
    monkeypatch.setenv(variable, "k-3")
    assert api_key(model) == "k-3"
    monkeypatch.delenv(variable)
    with pytest.raises(ValueError, match=variable):
        api_key(model)


def test_a_key_of_anthropics_is_sent_nowhere_else_unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "k-3")
    assert api_key(Model(provider="anthropic", name="m", base_url="http://x")) is None


@pytest.mark.parametrize(
    ("provider", "path", "header"),
    [
        ("openai", "/v1/chat/completions", "authorization"),
        ("azure", "/v1/openai/deployments/m/chat/completions?api-version=2024-10-21", "api-key"),
        ("anthropic", "/v1/messages", "x-api-key"),
    ],
)
def test_each_provider_has_its_client(
    server: Any, monkeypatch: pytest.MonkeyPatch, provider: str, path: str, header: str
) -> None:
    monkeypatch.setenv("MY_KEY", "key-of-the-test")
    server.steps = [server.error(429)]
    model = Model(provider=provider, name="m", base_url=server.url, api_key_env="MY_KEY")
    client = connect(Task(prompt="x"), model, Limits(), pool_size=2)
    with pytest.raises(TransientError):
        client.complete("", "x")
    client.close()
    assert server.requests[0]["path"] == path
    assert server.headers[0][header].endswith("key-of-the-test")


def test_the_embedded_model_knows_schemas(server: Any, embedded: type["FakeServer"]) -> None:
    """What it refuses is the row's fault, and a refusal is not taken for one of the schema."""
    server.steps = [server.error(400)]
    client = connect(Task(prompt="x", schema=SCHEMA), Model(), Limits(), pool_size=4)
    with pytest.raises(RowError):
        client.complete("", "x")
    assert server.requests[0]["response_format"]["type"] == "json_schema"
    client.close()


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


class TestDraft:
    def preview(self, model: Model) -> tuple[Any, str | None]:
        client, missing = draft(Task(name="label", prompt="x", schema=SCHEMA), model, Limits())
        found = client.preview("be brief", 'say "ü"')
        client.close()
        return found, missing

    def test_a_key_that_is_not_set_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("MY_KEY", raising=False)
        found, missing = self.preview(openai(api_key_env="MY_KEY", base_url="http://x/v1", headers={"X-Team": "a"}))
        assert missing == "MY_KEY"
        assert found.url == "http://x/v1/chat/completions"
        assert (found.headers["Authorization"], found.headers["X-Team"]) == ("Bearer ***", "a")
        assert found.headers["Content-Length"] == str(len(found.body.encode()))
        body = json.loads(found.body)
        assert body["messages"][1] == {"role": "user", "content": 'say "ü"'}
        assert body["response_format"]["json_schema"]["schema"] == SCHEMA

    def test_secrets_are_masked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_KEY", "k-9" * 5)
        model = openai(
            api_key_env="MY_KEY",
            base_url="http://joe:hunter22@x/v1",
            headers={"X-Api-Key": "tiny", "X-Session-Token": "long and secret"},
            parameters={"user": "k-9" * 5},
        )
        found, missing = self.preview(model)
        assert missing is None
        text = str(found)
        assert not [secret for secret in ("k-9", "hunter22", "tiny", "long and secret") if secret in text]
        assert found.url == "http://***@x/v1/chat/completions"

    def test_anthropic_asks_by_a_tool(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
        found, missing = self.preview(Model(provider="anthropic", name="m"))
        assert (found.url, found.headers["x-api-key"]) == ("https://api.anthropic.com/v1/messages", "***")
        assert missing == "ANTHROPIC_API_KEY"
        assert json.loads(found.body)["tool_choice"]["name"] == "label"

    def test_the_embedded_model_is_not_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("transforms.llm.embedded.find_model", lambda _path: "/models/small.gguf")
        monkeypatch.setattr("transforms.llm.embedded.EmbeddedServer", None)
        found, missing = self.preview(Model())
        body = json.loads(found.body)
        assert (body["model"], body["max_tokens"], missing) == ("small", 256, None)
        assert "Authorization" not in found.headers
