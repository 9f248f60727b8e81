"""What a client of a model is, and which one the settings ask for."""

from __future__ import annotations

import os
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple, Protocol

from transforms.llm.anthropic import AnthropicClient
from transforms.llm.azure import AzureClient
from transforms.llm.chat import ChatClient
from transforms.llm.completion import Completion
from transforms.llm.openai import OpenAIClient
from transforms.settings import Limits, Model, Task

EMBEDDED_PARAMETERS = {"temperature": 0, "max_tokens": 256}


class Provider(NamedTuple):
    """Who speaks a protocol: its client, its own endpoint (None: there is only the user's) and the environment
    variable that its key is commonly in."""

    client: type[OpenAIClient] | type[AnthropicClient]
    base_url: str | None
    api_key_env: str


PROVIDERS = {
    "openai": Provider(OpenAIClient, "https://api.openai.com/v1", "OPENAI_API_KEY"),
    "azure": Provider(AzureClient, None, "AZURE_OPENAI_API_KEY"),
    "anthropic": Provider(AnthropicClient, "https://api.anthropic.com", "ANTHROPIC_API_KEY"),
}


class Client(Protocol):
    """An endpoint with one model behind it. Any number of threads may call it at once."""

    def complete(self, system: str, user: str) -> Completion:
        """Make one request; an empty `system` is left out. Raises CallError."""

    def close(self) -> None:
        """Let go of connections and processes."""


def connect(task: Task, model: Model, limits: Limits, *, pool_size: int) -> Client:
    """A client for `model`, asking for the answers of `task`, with room for `pool_size` calls at once.

    Reads the key from the environment. Raises ValueError, naming the setting, for what cannot work.
    """
    if model.provider == "embedded":
        return _Embedded(task, model, limits, slots=pool_size)
    return _hosted(task, model, limits, api_key(model), pool_size)


def draft(task: Task, model: Model, limits: Limits) -> tuple[ChatClient, str | None]:
    """A client that is there to preview requests, and the environment variable whose key it lacks, if it does.

    The embedded model is looked for and not started: its address has no port yet. Raises ValueError as `connect`
    does, save for a key that is not set."""
    if model.provider == "embedded":
        from transforms.llm.embedded import find_model

        filled = _filled(model, find_model(model.path))
        return _local(task, filled, limits, "http://127.0.0.1/v1", pool_size=1), None
    name = key_variable(model)
    if name is None or os.environ.get(name, "").strip():
        return _hosted(task, model, limits, api_key(model), 1), None
    # In the key's place, so that its header shows; masked like every key, and in no text by chance.
    return _hosted(task, model, limits, token_hex(16), 1), name


def _hosted(task: Task, model: Model, limits: Limits, key: str | None, pool_size: int) -> ChatClient:
    provider = PROVIDERS[model.provider]
    return provider.client(
        model,
        limits,
        base_url=model.base_url or provider.base_url or "",
        api_key=key,
        json_schema=task.answer_schema,
        task_name=task.name,
        pool_size=pool_size,
    )


def api_key(model: Model) -> str | None:
    """The endpoint's key, from the environment variable that `key_variable` names; None if the endpoint takes none.

    Raises ValueError if the variable is not set.
    """
    name = key_variable(model)
    if name is None:
        return None
    key = os.environ.get(name, "").strip()  # a key read from a file often ends in a newline
    if not key:
        raise ValueError(f"model.api_key_env: the environment variable {name} is not set")
    if not key.isascii() or not key.isprintable():
        raise ValueError(f"model.api_key_env: the value of {name} has characters that no key has")
    return key


def key_variable(model: Model) -> str | None:
    """The environment variable that holds the endpoint's key: model.api_key_env. None: the endpoint takes no key.

    Without that setting, a provider's own endpoint takes the key from the provider's common variable, and so does
    every endpoint of Azure."""
    provider = PROVIDERS.get(model.provider)
    if model.api_key_env is None and provider and (model.base_url is None or provider.base_url is None):
        return provider.api_key_env
    return model.api_key_env


class _Embedded:
    """The model that runs on this machine: a server process of our own, and a client of it."""

    def __init__(self, task: Task, model: Model, limits: Limits, *, slots: int) -> None:
        # Imported here: it needs packages that a run against an endpoint does not.
        from transforms.llm.embedded import EmbeddedServer, find_model

        path = find_model(model.path)
        filled = _filled(model, path)
        self._server = EmbeddedServer(path, slots=slots)
        try:
            self._client = _local(task, filled, limits, self._server.base_url, pool_size=slots)
        except BaseException:
            self._server.close()
            raise

    def complete(self, system: str, user: str) -> Completion:
        return self._client.complete(system, user)

    def close(self) -> None:
        self._client.close()
        self._server.close()


def _filled(model: Model, path: str) -> Model:
    """The settings of the embedded model at `path`, complete."""
    mode = "json_schema" if model.structured_output == "auto" else model.structured_output  # it has them all
    parameters = {**EMBEDDED_PARAMETERS, **model.parameters}
    filled = {"name": model.name or Path(path).stem, "parameters": parameters, "structured_output": mode}
    return model.model_copy(update=filled)


def _local(task: Task, model: Model, limits: Limits, base_url: str, *, pool_size: int) -> OpenAIClient:
    return OpenAIClient(
        model,
        limits,
        base_url=base_url,
        api_key=None,
        json_schema=task.answer_schema,
        task_name=task.name,
        pool_size=pool_size,
        use_environment=False,  # a proxy for the world outside does not know this loopback address
    )
