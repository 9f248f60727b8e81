"""Messages over HTTP, as Anthropic defines them.

Source: docs.claude.com/en/api/messages.
"""

from __future__ import annotations

from typing import Any

from transforms.llm.anthropic_errors import http_error
from transforms.llm.anthropic_reply import completion
from transforms.llm.chat import ChatClient, check_parameters, encode
from transforms.llm.completion import Completion
from transforms.llm.errors import CallError
from transforms.llm.secrets import hide
from transforms.llm.structured_output import Mode, StructuredOutput, modes
from transforms.llm.transport import Response, Transport
from transforms.settings import Limits, Model

VERSION = "2023-06-01"
MAX_TOKENS = 1024  # the protocol demands a limit; model.parameters.max_tokens sets another
_MODES: tuple[Mode, ...] = ("json_schema", "off")
_OURS = ("messages", "stream", "system")


class AnthropicClient(ChatClient):
    """A client of one model behind one `base_url`, which ends before /v1/messages.

    Without `api_key` no x-api-key header is sent. An answer to `json_schema` is asked for as the input of a tool
    that the model has to call, named `task_name`. `pool_size` and `use_environment`: see Transport. Raises
    ValueError, naming the setting, for what cannot be sent.
    """

    def __init__(
        self,
        model: Model,
        limits: Limits,
        *,
        base_url: str,
        api_key: str | None,
        json_schema: dict[str, Any] | None,
        task_name: str,
        pool_size: int,
        use_environment: bool = True,
    ) -> None:
        hide(api_key)
        check_parameters(model, _OURS)
        # What model.parameters says wins; then there is nothing to fall back from.
        schema = None if {"tools", "tool_choice"} & model.parameters.keys() else json_schema
        chosen = modes(model.structured_output, schema, _MODES)
        self._tool = task_name
        # The body up to the place where the system text and the messages go.
        self._starts = {mode: _start(model, mode, schema, task_name) for mode in chosen}
        headers = {"anthropic-version": VERSION, **({"x-api-key": api_key} if api_key else {}), **model.headers}
        url = base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"
        transport = Transport(url, headers, limits, pool_size=pool_size, use_environment=use_environment)
        super().__init__(transport, StructuredOutput(chosen))

    def _request(self, mode: Mode, system: str, user: str) -> str:
        system_part = f'"system": {encode(system)}, ' if system else ""
        return f'{self._starts[mode]}{system_part}"messages": {encode([{"role": "user", "content": user}])}}}'

    def _completion(self, response: Response) -> Completion:
        return completion(response.body, response.headers, tool=self._tool)

    def _error(self, response: Response) -> CallError:
        return http_error(response)


def _start(model: Model, mode: Mode, schema: dict[str, Any] | None, tool: str) -> str:
    body: dict[str, Any] = {"model": model.name, "max_tokens": MAX_TOKENS}
    if mode == "json_schema":
        body["tools"] = [{"name": tool, "description": "Takes the answer.", "input_schema": schema}]
        body["tool_choice"] = {"type": "tool", "name": tool, "disable_parallel_tool_use": True}
    return encode({**body, **model.parameters})[:-1] + ", "
