"""The client of Azure OpenAI against a server on the loopback interface."""

from collections.abc import Callable
from typing import Any

import pytest

from transforms.llm.azure import AzureClient
from transforms.llm.completion import Completion, Usage
from transforms.llm.errors import CallError
from transforms.llm.prompt import Prompt
from transforms.settings import Model

Make = Callable[..., AzureClient]
FOUND = {"hate": {"filtered": False, "severity": "safe"}, "violence": {"filtered": True, "severity": "high"}}


@pytest.fixture
def make(server: Any, client: Callable[..., AzureClient]) -> Make:
    def made(**changes: Any) -> AzureClient:
        return client("azure", **{"base_url": server.url.removesuffix("/v1"), "api_key": "key-123", **changes})

    return made


@pytest.mark.parametrize("end", ["", "/", "/openai", "/openai/"])
def test_an_answer(server: Any, make: Make, end: str) -> None:
    one = make(base_url=server.url.removesuffix("/v1") + end, model={"name": "my gpt/4"})
    assert one.complete(Prompt.of("s", "x")) == Completion("A", "m-1", "stop", Usage(20, 5))
    path = "/openai/deployments/my%20gpt%2F4/chat/completions?api-version=2024-10-21"
    assert server.requests[0]["path"] == path
    assert server.headers[0]["api-key"] == "key-123"
    assert "authorization" not in server.headers[0]


def test_another_version(server: Any, make: Make) -> None:
    make(model={"api_version": "2025-04-01-preview"}).complete(Prompt.of("", "x"))
    assert server.requests[0]["path"].endswith("?api-version=2025-04-01-preview")


def test_a_resource_is_needed() -> None:
    with pytest.raises(ValueError, match="base_url is missing"):
        Model(provider="azure", name="m")
    with pytest.raises(ValueError, match="base_url is missing"):
        Model(provider="azure", name="m", endpoints=[{"base_url": "https://a"}, {}])
    assert Model(provider="azure", name="m", endpoints=[{"base_url": "https://a"}]).base_url is None


@pytest.mark.parametrize(
    ("status", "problem", "reason"),
    [
        (401, {"code": "401", "message": "Access denied"}, "auth"),
        (404, {"code": "DeploymentNotFound", "message": "no"}, "config_rejected"),
        (404, {"code": "404", "message": "Resource not found"}, "config_rejected"),
        (429, {"code": "429", "message": "exceeded token rate limit"}, "rate_limited"),
        (429, {"code": "insufficient_quota", "message": "no"}, "quota_exhausted"),
        (400, {"code": "context_length_exceeded", "message": "no"}, "request_too_large"),
    ],
)
def test_errors(server: Any, make: Make, status: int, problem: Any, reason: str) -> None:
    server.steps = [server.reply(status, {"error": problem})]
    with pytest.raises(CallError) as caught:
        make().complete(Prompt.of("", "x"))
    assert caught.value.reason == reason


def test_a_prompt_that_the_filter_refuses(server: Any, make: Make) -> None:
    found = {**FOUND, "jailbreak": {"filtered": True}}
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": found}
    server.steps = [server.error(400, "content_filter", "filtered", innererror=inner)]
    with pytest.raises(CallError) as caught:
        make().complete(Prompt.of("", "x"))
    assert caught.value.reason == "content_filter"
    assert caught.value.message == "HTTP 400: filtered (violence/high, jailbreak/detected)"


def test_an_answer_that_the_filter_cuts(server: Any, make: Make) -> None:
    body = server.chat("half")
    body["choices"][0].update(finish_reason="content_filter", content_filter_results=FOUND)
    server.steps = [server.reply(body=body)]
    found = make().complete(Prompt.of("", "x"))
    assert (found.finish_reason, found.filtered) == ("content_filter", "violence/high")
