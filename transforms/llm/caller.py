"""From a row to its answer: everything between the columns that go in and the columns that come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from transforms.llm.answers import TRUNCATED, AnswerParser, Parsed
from transforms.llm.breaker import Breaker
from transforms.llm.completion import Completion, Usage, total_usage
from transforms.llm.endpoints import Endpoints
from transforms.llm.errors import AccountError, CallError, FormatRefused, RowError, Stopped, unexpected
from transforms.llm.notes import ANSWER_TRUNCATED, ANSWER_UNWRAPPED, MAYBE_BILLED, PROMPT_MAYBE_TRUNCATED, REASKED
from transforms.llm.prices import cost_usd
from transforms.llm.prompt import Prompt
from transforms.llm.prompts import Prompts
from transforms.llm.retries import Called, Retries
from transforms.settings import Input, Limits, Model, Task

# Answers that a model may do better the next time. Not truncated: with the same limit it would be cut again.
_REASKABLE = frozenset({"invalid_json", "schema_mismatch", "empty_output"})
# No tokenizer makes so few tokens of a long text: fewer were read than were sent. Below so many characters that
# costs nothing to get wrong, and what templates add to a prompt weighs too much.
_CHARACTERS_PER_TOKEN = 8
_SHORT_PROMPT = 1000
_FORMAT_ROUNDS = 10  # refusals of ways to ask for JSON, by three: more than there are endpoints to give them


class Answer(NamedTuple):
    """A usable answer. `values` are the schema's columns, `attempts` the requests it took, `latency_ms` the
    milliseconds of the last one.

    Each of `completions` was billed, the last one is `completion`; `usage` and `cost_usd` (US dollars) are sums over
    all of them, None where a part is unknown. `notes`: see notes.py. `records` were asked about in the last request.
    """

    values: dict[str, Any]
    completion: Completion
    attempts: int
    latency_ms: float
    cost_usd: float | None
    usage: Usage = Usage()
    completions: int = 1
    notes: tuple[str, ...] = ()
    records: int = 1


class Caller:
    """Asks the model about one row. Built once per process, shared by all its threads. The clients of `endpoints`
    stay their owner's to close. Raises ValueError, naming the setting, for a task that cannot be used."""

    def __init__(self, task: Task, input: Input, model: Model, limits: Limits, *, endpoints: Endpoints) -> None:
        self._prompts = Prompts(task, input, model)
        self._parser = AnswerParser(task.answer_schema, keep_truncated=task.on_truncated == "keep")
        self._reasks = task.max_reasks if task.on_invalid == "retry" else 0
        self._price = model.price
        self._retries = Retries(limits, endpoints)
        self._breaker = Breaker(limits.max_consecutive_failures)

    def ask(self, fields: Mapping[str, Any]) -> Answer:
        """The answer for one row's columns.

        Raises CallError, complete with attempts and with what was billed for nothing, or Stopped; nothing else:
        whatever else goes wrong is a RowError bad_response of this row.
        """
        bill = Bill()
        try:
            parsed = self._answer(bill, self._prompts.render(fields))
        except Stopped:
            raise
        except Exception as error:
            failure = self.failure(error, bill)
            if failure is error:
                raise
            raise failure from error
        return self.answer(parsed, bill)

    def answer(self, parsed: Parsed, bill: Bill) -> Answer:
        """The usable answer that the bill was for."""
        self._breaker.answered()
        if parsed.unwrapped:
            bill.notes.append(ANSWER_UNWRAPPED)
        called = bill.billed[-1]
        completion = called.completion
        if parsed.truncated:
            bill.notes.append(ANSWER_TRUNCATED)
            completion = completion._replace(finish_reason=TRUNCATED)
        return Answer(
            parsed.values,
            completion,
            bill.attempts,
            round(called.latency_ms, 1),
            self._cost(bill.billed),
            _usage(bill.billed),
            len(bill.billed),
            (*completion.notes, *bill.notes),
        )

    def cost(self, completion: Completion | None) -> float | None:
        """US dollars that one completion costs, None if unknown."""
        return None if completion is None else cost_usd(completion.usage, self._price)

    def _answer(self, bill: Bill, prompt: Prompt) -> Parsed:
        """Asks until an answer counts: once more for each that a model may do better, at most `max_reasks` times."""
        rejected: RowError | None = None
        reasks = 0
        while True:
            try:
                completion = self.request(bill, prompt)
            except (Stopped, AccountError) as stopped:
                if rejected is None:
                    raise
                # There is an answer that was paid for: the row is not undone, and its cost is known.
                rejected.account = stopped if isinstance(stopped, AccountError) else None
                raise rejected from None
            if rejected is not None:
                bill.notes.append(REASKED)
            try:
                return self._parser.parse(completion)
            except RowError as error:
                if reasks == self._reasks or error.reason not in _REASKABLE:
                    raise
                rejected = error
            reasks += 1

    def request(self, bill: Bill, prompt: Prompt) -> Completion:
        """One completion, whatever it says, put on the bill. Raises CallError or Stopped."""
        rounds = 0
        while True:
            try:
                called = self._retries.call(prompt)
            except FormatRefused as error:  # several endpoints, of which each refuses in its turn
                bill.count(error.attempts, error.maybe_billed)
                rounds += 1
                if rounds == _FORMAT_ROUNDS:
                    raise AccountError("config_rejected", error.message, http_status=error.http_status) from error
                continue
            except CallError as error:
                bill.count(error.attempts, error.maybe_billed)
                raise
            bill.count(called.attempts, called.maybe_billed)
            bill.billed.append(called)
            read, sent = called.completion.usage.prompt_tokens, prompt.text_characters
            if read is not None and sent >= _SHORT_PROMPT and read * _CHARACTERS_PER_TOKEN < sent:
                bill.notes.append(PROMPT_MAYBE_TRUNCATED)
            return called.completion

    def failure(self, cause: Exception, bill: Bill) -> CallError:
        """The error for what the bill was for, complete, or the AccountError that it amounts to."""
        error = cause if isinstance(cause, CallError) else unexpected(cause)
        if bill.billed:
            self._breaker.answered()
            error.completion = bill.billed[-1].completion
            error.usage, error.cost_usd = _usage(bill.billed), self._cost(bill.billed)
            error.completions = len(bill.billed)
            bill.notes += error.completion.notes
        else:
            error = self._breaker.failed(error)
        error.attempts, error.maybe_billed, error.notes = bill.attempts, bill.maybe_billed, tuple(bill.notes)
        return error

    def _cost(self, billed: list[Called]) -> float | None:
        costs = [cost_usd(called.completion.usage, self._price) for called in billed]
        known = [cost for cost in costs if cost is not None]
        return sum(known) if len(known) == len(costs) else None


class Bill:
    """What has happened to one row so far, or to several that share their requests."""

    __slots__ = ("attempts", "billed", "maybe_billed", "notes")

    def __init__(self) -> None:
        self.attempts = 0
        self.maybe_billed = 0
        self.billed: list[Called] = []
        self.notes: list[str] = []

    def count(self, attempts: int, maybe_billed: int) -> None:
        self.attempts += attempts
        if maybe_billed:
            self.maybe_billed += maybe_billed
            self.notes += [MAYBE_BILLED] * maybe_billed


def _usage(billed: list[Called]) -> Usage:
    if len(billed) == 1:
        return billed[0].completion.usage
    return total_usage(called.completion.usage for called in billed)
