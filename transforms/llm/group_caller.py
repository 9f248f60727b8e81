"""One request about several rows: what each of them gets of the answer, and its share of what the answer took."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from transforms.llm.answers import Parsed
from transforms.llm.caller import Answer, Bill, Caller
from transforms.llm.completion import Usage, total_usage
from transforms.llm.errors import AccountError, CallError, RowError, Stopped
from transforms.llm.group_answers import GroupParser, Piece
from transforms.llm.group_prompts import GroupPrompts
from transforms.llm.notes import ASKED_APART, MAYBE_BILLED, REASKED
from transforms.llm.shares import split_dollars, split_usage
from transforms.settings import Input, Task

_OF_REQUESTS = (MAYBE_BILLED, REASKED)  # notes that count requests, which belong to one of the rows


class GroupOutcome(NamedTuple):
    """What one request about several rows came to. `outcomes` are theirs, in order, each with its share of tokens and
    dollars; the first has the count of requests. `error`: why none of them has an answer. `usage` and `cost_usd`
    (US dollars) are the request's, `completions` how many answers were billed."""

    outcomes: list[Answer | CallError]
    error: CallError | None
    usage: Usage
    cost_usd: float | None
    completions: int


class GroupCaller:
    """Asks the model about several rows at once, through the `caller` that asks about one. Shared by all threads of a
    process. Raises ValueError, naming the setting, for a task that cannot be asked so."""

    def __init__(self, task: Task, input: Input, caller: Caller) -> None:
        self._prompts = GroupPrompts(task, input)
        self._parser = GroupParser(task.answer_schema)
        self._caller = caller

    def ask(self, rows: Sequence[Mapping[str, Any]]) -> GroupOutcome:
        """Makes one request about two rows or more, and whatever repeats of it Retries makes. Raises AccountError or
        Stopped: then no row has an outcome."""
        bill = Bill()
        characters = [1] * len(rows)
        try:
            prompt, characters = self._prompts.render(rows)
            completion = self._caller.request(bill, prompt)
            pieces, unwrapped = self._parser.parse(completion, len(rows))
        except Stopped:
            raise
        except Exception as cause:
            error = self._caller.failure(cause, bill)
            if isinstance(error, AccountError):
                raise error from cause
            parts: list[Answer | CallError] = [copy.copy(error) for _row in rows]
            outcomes = _dealt_out(parts, error.usage, error.cost_usd, error, characters)
            return GroupOutcome(outcomes, error, error.usage, error.cost_usd, error.completions)
        whole = self._caller.answer(Parsed({}, unwrapped), bill)
        parts = [self._part(piece, whole, len(rows)) for piece in pieces]
        outcomes = _dealt_out(parts, whole.usage, whole.cost_usd, whole, characters)
        return GroupOutcome(outcomes, None, whole.usage, whole.cost_usd, whole.completions)

    def _part(self, piece: Piece | RowError, whole: Answer, records: int) -> Answer | CallError:
        if isinstance(piece, RowError):
            piece.completions = whole.completions
            return piece
        completion = whole.completion._replace(text=piece.text)
        return whole._replace(values=piece.values, completion=completion, records=records)


def with_earlier(earlier: Sequence[CallError], last: Answer | CallError) -> Answer | CallError:
    """The outcome of a row whose requests together with others, `earlier`, gave it none: `last`, with what those took
    as well."""
    usages, costs = ([], []) if _unbilled(last) else ([last.usage], [last.cost_usd])
    for error in earlier:
        if not _unbilled(error):
            usages.append(error.usage)
            costs.append(error.cost_usd)
    notes = [note for error in earlier for note in error.notes if note in _OF_REQUESTS]
    known = [cost for cost in costs if cost is not None]
    sums: dict[str, Any] = {
        "attempts": last.attempts + sum(error.attempts for error in earlier),
        "usage": total_usage(usages) if usages else Usage(),
        "cost_usd": sum(known) if known and len(known) == len(costs) else None,
        "completions": last.completions + sum(error.completions for error in earlier),
        "notes": (*notes, *last.notes, ASKED_APART),
    }
    if isinstance(last, Answer):
        return last._replace(**sums)
    for name, value in sums.items():
        setattr(last, name, value)
    return last


def _unbilled(outcome: Answer | CallError) -> bool:
    return isinstance(outcome, CallError) and outcome.completions == 0


def _dealt_out(
    parts: list[Answer | CallError],
    usage: Usage,
    cost_usd: float | None,
    whole: Answer | CallError,
    characters: Sequence[int],
) -> list[Answer | CallError]:
    """The parts, each with its share."""
    shared = tuple(note for note in whole.notes if note not in _OF_REQUESTS)
    shares = zip(split_usage(usage, characters), split_dollars(cost_usd, characters), strict=True)
    dealt: list[Answer | CallError] = []
    for at, (part, (tokens, dollars)) in enumerate(zip(parts, shares, strict=True)):
        attempts, notes = (whole.attempts, whole.notes) if at == 0 else (0, shared)
        if isinstance(part, Answer):
            part = part._replace(usage=tokens, cost_usd=dollars, attempts=attempts, notes=notes)
        else:
            part.usage, part.cost_usd, part.attempts, part.notes = tokens, dollars, attempts, notes
        dealt.append(part)
    return dealt
