"""From a row to its answer: everything between the columns that go in and the columns that come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from transforms.llm.answers import AnswerParser
from transforms.llm.client import Client
from transforms.llm.completion import Completion
from transforms.llm.errors import CallError, Stopped, unexpected
from transforms.llm.limits import Gate
from transforms.llm.prices import cost_usd
from transforms.llm.prompts import Template
from transforms.llm.retries import Called, Retries
from transforms.settings import Input, Limits, Model, Task


class Answer(NamedTuple):
    """A usable answer. `values` are the schema's columns, `attempts` the requests it took, `latency_ms` the
    milliseconds of the last one, `cost_usd` US dollars or None if unknown."""

    values: dict[str, Any]
    completion: Completion
    attempts: int
    latency_ms: float
    cost_usd: float | None


class Caller:
    """Asks the model about one row. Built once per process, shared by all its threads. `client` stays the
    caller's to close. Raises ValueError for a schema that cannot be used."""

    def __init__(self, task: Task, input: Input, model: Model, limits: Limits, *, client: Client, gate: Gate) -> None:
        alias = {"text": input.text} if input.text else {}
        self._system = Template(task.system, alias)
        self._prompt = Template(task.prompt, alias)
        self._parser = AnswerParser(task.answer_schema)
        self._price = model.price
        self._client = client
        self._retries = Retries(limits, gate)

    def ask(self, fields: Mapping[str, Any]) -> Answer:
        """The answer for one row's columns.

        Raises CallError, complete with attempts and an answer that was billed for nothing, or Stopped;
        nothing else: whatever else goes wrong is a RowError bad_response of this row.
        """
        called: Called | None = None
        try:
            system, prompt = self._system.render(fields), self._prompt.render(fields)
            called = self._retries.call(lambda: self._client.complete(system, prompt))
            values = self._parser.parse(called.completion)
        except Stopped:
            raise
        except Exception as error:
            failure = error if isinstance(error, CallError) else unexpected(error)
            if called:
                failure.attempts, failure.completion = called.attempts, called.completion
            if failure is error:
                raise
            raise failure from error
        cost = self.cost(called.completion)
        return Answer(values, called.completion, called.attempts, round(called.latency_ms, 1), cost)

    def cost(self, completion: Completion | None) -> float | None:
        """US dollars that a completion costs, None if unknown. For the one in a CallError as well."""
        return None if completion is None else cost_usd(completion.usage, self._price)
