"""Messages over HTTP, as Anthropic defines them.

Source: docs.claude.com/en/api/messages.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from transforms.llm.anthropic_errors import http_error
from transforms.llm.anthropic_reply import completion
from transforms.llm.chat import ChatClient, check_parameters, start_of_body
from transforms.llm.completion import Completion
from transforms.llm.defaults import parameters
from transforms.llm.errors import CallError
from transforms.llm.group_schema import answer_schema
from transforms.llm.prompt import Prompt, encode
from transforms.llm.secrets import hide
from transforms.llm.structured_output import Mode, modes
from transforms.llm.transport import Response, Transport
from transforms.settings import Limits, Model

VERSION = "2023-06-01"
_MODES: tuple[Mode, ...] = ("json_schema", "off")
_OURS = ("messages", "stream", "system")


class AnthropicClient(ChatClient):
    """A client of one model behind one `base_url`, which ends before /v1/messages.

    Without `api_key` no x-api-key header is sent. An answer to `json_schema` is asked for as the input of a tool
    that the model has to call, named `task_name`. `row_parameters` are the names of those that prompts set.
    `pool_size` and `use_environment`: see Transport. Raises ValueError, naming the setting, for what cannot be sent.
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
        row_parameters: Collection[str] = (),
        use_environment: bool = True,
    ) -> None:
        hide(api_key)
        check_parameters(model, _OURS)
        # What model.parameters says wins; then there is nothing to fall back from.
        schema = None if {"tools", "tool_choice"} & model.parameters.keys() else json_schema
        self._tool = task_name

        def start(mode: Mode, records: int) -> str:
            return start_of_body(_body(model, mode, answer_schema(schema, records), task_name, records), row_parameters)

        headers = {"anthropic-version": VERSION, **({"x-api-key": api_key} if api_key else {}), **model.headers}
        url = base_url.rstrip("/").removesuffix("/v1") + "/v1/messages"
        transport = Transport(url, headers, limits, pool_size=pool_size, use_environment=use_environment)
        alone, group = (modes(model.structured_output, answer_schema(schema, records), _MODES) for records in (1, 2))
        super().__init__(transport, start, alone=alone, group=group)

    def _request(self, mode: Mode, prompt: Prompt) -> str:
        own = prompt.parameters and prompt.parameters + ", "
        system = f'"system": {encode(prompt.system)}, ' if prompt.system else ""
        return f'{self._start(mode, prompt.records)}{own}{system}"messages": {prompt.messages}}}'

    def _completion(self, response: Response) -> Completion:
        return completion(response.body, response.headers, tool=self._tool)

    def _error(self, response: Response) -> CallError:
        return http_error(response)


def _body(model: Model, mode: Mode, schema: dict[str, Any] | None, tool: str, records: int) -> dict[str, Any]:
    known = parameters(model, records)
    body: dict[str, Any] = {"model": model.name, "max_tokens": known["max_tokens"]}
    if mode == "json_schema":
        body["tools"] = [{"name": tool, "description": "Takes the answer.", "input_schema": schema}]
        body["tool_choice"] = {"type": "tool", "name": tool, "disable_parallel_tool_use": True}
    return {**body, **known}
