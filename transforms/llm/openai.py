"""Chat completions over HTTP, as OpenAI defines them and as most servers speak them.

Source: platform.openai.com/docs/api-reference/chat/create. One `complete` is one HTTP request; whether it is
repeated, and when, is decided in retries.py alone.
"""

from __future__ import annotations

import json
from importlib import metadata
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError

from transforms.llm.completion import Completion
from transforms.llm.errors import TransientError
from transforms.llm.openai_errors import http_error, unreadable
from transforms.llm.openai_reply import completion
from transforms.llm.secrets import hide, masked
from transforms.llm.transport import transport_error
from transforms.settings import Limits, Model

_OURS = ("messages", "stream", "n")  # what model.parameters cannot set: it would change what an answer is
_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class OpenAIClient:
    """One endpoint, one model and one shape of answer; shared by all threads of a process.

    All that is the same for every row is prepared here, once: the start of the body, headers, proxies,
    certificates. `base_url` ends before /chat/completions. Without `api_key` no Authorization header is sent.
    `json_schema` is asked for in the way that model.structured_output says, under the name `task_name`.
    `pool_size` is how many connections stay open; more than that work, but are not kept.
    `use_environment=False` leaves the environment's proxies aside, for a server of our own. Raises
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
        self._start = _constant_part(model, json_schema, task_name)
        prepared = _prepared(base_url, _headers(model, api_key))
        self._url = str(prepared.url)
        self._headers = dict(prepared.headers)
        self._timeout = (limits.connect_timeout_seconds, limits.timeout_seconds)
        with requests.Session() as session:
            session.trust_env = use_environment
            # Read once: Session.request would look through the environment again for every call.
            found = session.merge_environment_settings(self._url, {}, False, None, None)
            self._settings: dict[str, Any] = dict(found)
        # The adapter itself, not the session: no redirects to follow, no jar of cookies that threads share.
        self._adapter = HTTPAdapter(pool_maxsize=pool_size, pool_block=False, max_retries=0)

    def complete(self, system: str, user: str) -> Completion:
        """Make one request. Raises CallError; any number of threads may call it at once."""
        messages = [{"role": "user", "content": user}]
        if system:
            messages.insert(0, {"role": "system", "content": system})
        response, content = self._send((self._start + _encode(messages) + "}").encode())
        body = _parsed(content)
        if response.status_code == 200 and body is not None:
            return completion(body, response.headers)
        text = "" if body is not None else content[:20_000].decode("utf-8", "replace")
        if 200 <= response.status_code < 300:
            message = unreadable(response.status_code, response.headers, text)
            raise TransientError("bad_response", message, http_status=response.status_code)
        raise http_error(response.status_code, body, response.headers, text)

    def close(self) -> None:
        """Close the idle connections."""
        self._adapter.close()

    def _send(self, body: bytes) -> tuple[requests.Response, bytes]:
        request = requests.PreparedRequest()
        request.method, request.url, request.body = "POST", self._url, body
        # A plain dict: nothing looks names up here, and CaseInsensitiveDict is slow to copy.
        request.headers = {**self._headers, "Content-Length": str(len(body))}  # type: ignore[assignment]
        try:
            response = self._adapter.send(request, timeout=self._timeout, **self._settings)
            return response, response.content
        except (OSError, HTTPError) as error:  # requests' are OSErrors; some of urllib3's pass it
            raise transport_error(error) from error


def _constant_part(model: Model, schema: dict[str, Any] | None, task_name: str) -> str:
    """The body as JSON up to the place where the messages go."""
    for name in _OURS:
        if name in model.parameters:
            raise ValueError(f"model.parameters.{name}: each row is one question with one whole answer")
    body: dict[str, Any] = {"model": model.name}
    if schema is not None and model.structured_output == "json_schema":
        named = {"name": task_name, "schema": schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    elif schema is not None and model.structured_output == "json_object":
        body["response_format"] = {"type": "json_object"}
    try:
        return _encode({**body, **model.parameters})[:-1] + ', "messages": '
    except (TypeError, ValueError) as error:
        raise ValueError(f"model.parameters: not JSON: {error}") from None


def _headers(model: Model, api_key: str | None) -> dict[str, str]:
    headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": _user_agent()}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    return {**headers, **model.headers}


def _prepared(base_url: str, headers: dict[str, str]) -> requests.PreparedRequest:
    url = base_url.rstrip("/") + "/chat/completions"
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError(f"model.base_url: {masked(base_url)!r} begins with neither http:// nor https://")
    try:
        # Prepared without a session, which would put a password from ~/.netrc in the place of the key.
        return requests.Request("POST", url, headers=headers, data=b"{}").prepare()
    except requests.exceptions.InvalidHeader:
        # Not its own message, which quotes the value.
        raise ValueError("model.headers: a name or value that HTTP does not allow") from None
    except requests.RequestException as error:
        raise ValueError(f"model.base_url: {masked(str(error))}") from None


def _parsed(content: bytes) -> Any:
    """The body as JSON; None if it is not JSON (or null, which says as little)."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):  # a UnicodeDecodeError is a ValueError
        return None


def _user_agent() -> str:
    try:
        return f"paidonce/{metadata.version('paidonce')}"
    except metadata.PackageNotFoundError:  # run from a checkout
        return "paidonce/0"
