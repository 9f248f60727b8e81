"""What the next call may cost: a high guess at first, then what calls turn out to take."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from transforms.llm.completion import Usage
from transforms.llm.defaults import parameters
from transforms.llm.group_prompts import GroupPrompts
from transforms.llm.prices import cost_usd
from transforms.llm.prompts import Prompts
from transforms.llm.row_parameters import output_limit
from transforms.settings import Input, Model, Price, Task

_SURE = 30  # answers, from which on they are believed rather than the guess
_GUESSED_TOKENS = 1.0  # a character of the prompt: four times what English takes, about what Chinese takes
_GUESSED_OUTPUT = 256  # tokens of an answer that nothing limits
_TEXT_SCHEMA = 25  # characters of the schema for a text under its key
_PROMPT_MARGIN, _OUTPUT_MARGIN = 1.25, 2.0  # over the most that was seen: prompts vary little, answers more


class Size(NamedTuple):
    """How long a row's request is, and the most tokens of its answer where the row itself limits those."""

    characters: int
    output_limit: int | None = None
    records: int = 1


class Forecast:
    """The most that a row's call is likely to cost, by the length of its prompt. Not safe for threads."""

    def __init__(self, task: Task, input: Input, model: Model, price: Price) -> None:
        self._prompts = Prompts(task, input, model)
        # Providers bill the schema as a part of the prompt.
        self._schema = len(json.dumps(task.answer_schema)) if task.answer_schema is not None else 0
        self._group = GroupPrompts(task, input) if task.records_per_call > 1 else None
        self._price = price
        self._answers_a_row = 1 + (task.max_reasks if task.on_invalid == "retry" else 0)
        self._limit = output_limit(parameters(model))
        self._answers = 0
        self._tokens = 0.0  # of prompts, a character: the most seen
        self._output = 0.0  # tokens of an answer: the most seen

    def size(self, fields: Mapping[str, Any]) -> Size:
        """The size of a row's request."""
        prompt = self._prompts.render(fields)
        return Size(self._schema + prompt.characters, prompt.output_limit)

    def group_size(self, rows: Sequence[Mapping[str, Any]]) -> Size:
        """The size of a request about several rows."""
        assert self._group is not None
        schema = (self._schema or _TEXT_SCHEMA) * len(rows)
        return Size(schema + self._group.render(rows).prompt.characters, None, len(rows))

    def cost_usd(self, size: Size) -> float:
        """US dollars that a request of that size may cost."""
        sure = self._answers >= _SURE
        seen = self._tokens * _PROMPT_MARGIN
        prompt = round(size.characters * (seen if sure else max(seen, _GUESSED_TOKENS)))
        output = self._output_tokens(sure, size.output_limit or self._limit) * size.records
        # All of it written to a cache, as far as that costs more.
        costs = (cost_usd(Usage(prompt, output, 0, written), self._price) for written in (0, prompt))
        answers = self._answers_a_row if size.records == 1 else 1
        return answers * max(cost or 0.0 for cost in costs)

    def learn(
        self, characters: int, prompt_tokens: int, completion_tokens: int, answers: int = 1, records: int = 1
    ) -> None:
        """Takes note of the tokens that a row took, in so many answers, or a request about so many rows."""
        self._answers += 1
        self._tokens = max(self._tokens, prompt_tokens / answers / max(1, characters))
        self._output = max(self._output, completion_tokens / answers / records)

    def _output_tokens(self, sure: bool, limit: int | None) -> int:
        seen = round(self._output * _OUTPUT_MARGIN)
        if sure:
            return seen if limit is None else min(seen, limit)
        return max(seen, _GUESSED_OUTPUT if limit is None else limit)
