"""Chat completions over HTTP, as OpenAI defines them and as most servers speak them.

Source: platform.openai.com/docs/api-reference/chat/create.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from transforms.llm.chat import ChatClient, check_parameters, start_of_body
from transforms.llm.completion import Completion
from transforms.llm.defaults import parameters
from transforms.llm.errors import CallError
from transforms.llm.group_schema import answer_schema
from transforms.llm.openai_errors import http_error, refuses_format
from transforms.llm.openai_reply import completion
from transforms.llm.prompt import Prompt, encode, message
from transforms.llm.secrets import hide
from transforms.llm.structured_output import Mode, modes
from transforms.llm.transport import Response, Transport
from transforms.settings import Limits, Model

_MODES: tuple[Mode, ...] = ("json_schema", "json_object", "off")


class OpenAIClient(ChatClient):
    """A client of one model behind one `base_url`, which ends before /chat/completions.

    Without `api_key` no Authorization header is sent. `json_schema` is asked for in the way that
    model.structured_output says, under the name `task_name`. `row_parameters` are the names of those that prompts
    set. `pool_size` and `use_environment`: see Transport. Raises ValueError, naming the setting, for what cannot be
    sent.
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
        check_parameters(model, ("messages", "stream", "n"))
        # What model.parameters says wins; then there is nothing to fall back from.
        schema = None if "response_format" in model.parameters else json_schema

        def start(mode: Mode, records: int) -> str:
            return start_of_body(_body(model, mode, answer_schema(schema, records), task_name, records), row_parameters)

        headers = {**(self._key_header(api_key) if api_key else {}), **model.headers}
        transport = Transport(
            self._url(base_url, model), headers, limits, pool_size=pool_size, use_environment=use_environment
        )
        alone, group = (modes(model.structured_output, answer_schema(schema, records), _MODES) for records in (1, 2))
        super().__init__(transport, start, alone=alone, group=group)

    def _url(self, base_url: str, model: Model) -> str:
        return base_url.rstrip("/") + "/chat/completions"

    def _key_header(self, api_key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {api_key}"}

    def _request(self, mode: Mode, prompt: Prompt) -> str:
        parameters = prompt.parameters and prompt.parameters + ", "
        messages = prompt.messages
        if prompt.system:
            messages = f"[{encode(message('system', prompt.system))}, {messages[1:]}"
        return f'{self._start(mode, prompt.records)}{parameters}"messages": {messages}}}'

    def _completion(self, response: Response) -> Completion:
        return completion(response.body, response.headers)

    def _error(self, response: Response) -> CallError:
        return http_error(response)

    def _names_format(self, response: Response) -> bool:
        return refuses_format(response.body)


def _body(model: Model, mode: Mode, schema: dict[str, Any] | None, task_name: str, records: int) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model.name}
    if mode == "json_schema":
        named = {"name": task_name, "schema": schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    elif mode == "json_object":
        body["response_format"] = {"type": "json_object"}
    own = parameters(model, records)
    return {**body, **{name: own[name] for name in model.parameters}}
