"""What the clients of all providers have in common: one question, one request, one answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

from transforms.llm.completion import Completion
from transforms.llm.errors import CallError
from transforms.llm.notes import STRUCTURED_OUTPUT_FALLBACK
from transforms.llm.prompt import Prompt, encode
from transforms.llm.rate_headers import rate_headers
from transforms.llm.secrets import masked, without_known
from transforms.llm.structured_output import Mode, StructuredOutput
from transforms.llm.transport import Response, Transport, shown_header
from transforms.settings import Model


class Preview(NamedTuple):
    """A request as it goes over the wire, its secrets masked."""

    url: str
    headers: dict[str, str]
    body: str


class ChatClient(ABC):
    """One endpoint, one model and one shape of answer; shared by all threads of a process."""

    def __init__(
        self, transport: Transport, start: Callable[[Mode, int], str], *, alone: Sequence[Mode], group: Sequence[Mode]
    ) -> None:
        """`start` gives the JSON of a request's body up to what a prompt adds, in a mode and for so many records.
        `alone` and `group` are the modes, best first, for requests about one record and about several."""
        self._transport = transport
        self._start = cache(start)  # prepared once, not for every request
        self._alone, self._group = StructuredOutput(alone), StructuredOutput(group)

    def complete(self, prompt: Prompt) -> Completion:
        """Make one request. Raises CallError."""
        output = self._output(prompt)
        mode = output.mode(prompt)
        response = self._transport.post(self._body(mode, prompt))
        rate = rate_headers(response.headers)
        try:
            if not response.ok():
                error = self._error(response)
                raise output.refused(mode, prompt, error, named=self._names_format(response))
            completion = self._completion(response)
        except CallError as error:
            error.rate = rate
            raise
        output.accepted(mode, prompt)
        notes = (STRUCTURED_OUTPUT_FALLBACK,) if output.is_fallback(mode) else ()
        return completion._replace(rate=rate, notes=notes) if rate or notes else completion

    def preview(self, prompt: Prompt) -> Preview:
        """The request that `complete` would make first, which is not made."""
        request = self._transport.request(self._body(self._output(prompt).mode(prompt), prompt))
        headers = {name: shown_header(name, value) for name, value in request.headers.items()}
        assert isinstance(request.body, bytes)
        return Preview(masked(str(request.url)), headers, without_known(request.body.decode()))

    def close(self) -> None:
        """Close the idle connections."""
        self._transport.close()

    def _output(self, prompt: Prompt) -> StructuredOutput:
        return self._alone if prompt.records == 1 else self._group

    def _body(self, mode: Mode, prompt: Prompt) -> bytes:
        return self._request(mode, prompt).encode()

    @abstractmethod
    def _request(self, mode: Mode, prompt: Prompt) -> str:
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


def start_of_body(body: dict[str, Any], row_parameters: Collection[str]) -> str:
    """The JSON of a request's body up to what a prompt adds, which is the same for every row. `row_parameters` are
    those that each prompt brings with it: a body must not have them twice."""
    return encode({key: value for key, value in body.items() if key not in row_parameters})[:-1] + ", "


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
