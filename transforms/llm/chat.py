"""What the clients of all providers have in common: one question, one request, one answer."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import NamedTuple

from transforms.llm.completion import Completion
from transforms.llm.errors import CallError
from transforms.llm.notes import STRUCTURED_OUTPUT_FALLBACK
from transforms.llm.rate_headers import rate_headers
from transforms.llm.secrets import masked, without_known
from transforms.llm.structured_output import Mode, StructuredOutput
from transforms.llm.transport import Response, Transport, shown_header
from transforms.settings import Model

encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


class Preview(NamedTuple):
    """A request as it goes over the wire, its secrets masked."""

    url: str
    headers: dict[str, str]
    body: str


class ChatClient(ABC):
    """One endpoint, one model and one shape of answer; shared by all threads of a process."""

    def __init__(self, transport: Transport, output: StructuredOutput) -> None:
        self._transport = transport
        self._output = output

    def complete(self, system: str, user: str) -> Completion:
        """Make one request; an empty `system` is left out. Raises CallError."""
        prompt = (system, user)
        mode = self._output.mode(prompt)
        response = self._transport.post(self._body(mode, system, user))
        rate = rate_headers(response.headers)
        try:
            if not response.ok():
                error = self._error(response)
                raise self._output.refused(mode, prompt, error, named=self._names_format(response))
            completion = self._completion(response)
        except CallError as error:
            error.rate = rate
            raise
        self._output.accepted(mode, prompt)
        notes = (STRUCTURED_OUTPUT_FALLBACK,) if self._output.is_fallback(mode) else ()
        return completion._replace(rate=rate, notes=notes) if rate or notes else completion

    def preview(self, system: str, user: str) -> Preview:
        """The request that `complete` would make first, which is not made."""
        request = self._transport.request(self._body(self._output.mode((system, user)), system, user))
        headers = {name: shown_header(name, value) for name, value in request.headers.items()}
        assert isinstance(request.body, bytes)
        return Preview(masked(str(request.url)), headers, without_known(request.body.decode()))

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    def _body(self, mode: Mode, system: str, user: str) -> bytes:
        return self._request(mode, system, user).encode()

    @abstractmethod
    def _request(self, mode: Mode, system: str, user: str) -> str:
        """The body of a request, as JSON."""

    @abstractmethod
    def _completion(self, response: Response) -> Completion:
        """The completion in a 200. Raises CallError for a body that is none."""

    @abstractmethod
    def _error(self, response: Response) -> CallError:
        """The error of a response that is no success."""

    def _names_format(self, response: Response) -> bool:
        """Whether an error says that the way to ask for JSON is what it refuses."""
        return False


def check_parameters(model: Model, ours: tuple[str, ...]) -> None:
    """Raises ValueError for what model.parameters cannot set, as it would change what an answer is, and for what
    JSON does not hold."""
    for name in ours:
        if name in model.parameters:
            raise ValueError(f"model.parameters.{name}: each row is one question with one whole answer")
    try:
        encode(model.parameters)
    except (TypeError, ValueError) as error:
        raise ValueError(f"model.parameters: not JSON: {error}") from None
