"""From the columns of several rows to one question about all of them, each under its key.

The rows' prompts are the values of a JSON object: whatever a row says, it cannot pass itself off as another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from transforms.llm.examples import answer_text, example_fields
from transforms.llm.group_schema import keys
from transforms.llm.prompt import Prompt, encode, message
from transforms.llm.template import Template
from transforms.settings import Input, Task

_HOW = (
    "The message is a JSON object of separate inputs. Answer each as if it were the only one. "
    "Reply with one JSON object that has the same keys, and under each key "
)
_WITH_SCHEMA = "the JSON object that answers that input."
_WITH_TEXT = "the answer to that input, as a string."


class GroupPrompt(NamedTuple):
    """A question about several rows, and the characters of each row in it."""

    prompt: Prompt
    characters: list[int]


class GroupPrompts:
    """Makes the questions of one task about several rows. Safe for threads. Raises ValueError, naming the setting,
    for a task that has none."""

    def __init__(self, task: Task, input: Input) -> None:
        alias = {"text": input.text} if input.text else {}
        if placeholders := Template(task.system, alias).placeholders:
            raise ValueError(
                f"task.system: with task.records_per_call it is the same for all records, so {{{placeholders[0]}}} "
                "cannot stand in it; put it into task.prompt"
            )
        self._prompt = Template(task.prompt, alias)
        how = _HOW + (_WITH_TEXT if task.answer_schema is None else _WITH_SCHEMA)
        self._system = f"{task.system}\n\n{how}" if task.system else how
        shown = self._examples(task, input)
        self.common_characters = len(self._system) + sum(len(each["content"]) for each in shown)
        """Of what every question has, however many rows it is about."""
        self._start = encode(shown)[:-1] + (", " if shown else "")

    def render(self, rows: Sequence[Mapping[str, Any]]) -> GroupPrompt:
        """The question about these rows, from two on."""
        texts = [self._prompt.render(fields) for fields in rows]
        user = _keyed(encode(text) for text in texts)
        messages = f"{self._start}{encode(message('user', user))}]"
        prompt = Prompt(self._system, messages, text_characters=self.common_characters + len(user), records=len(rows))
        return GroupPrompt(prompt, [max(1, len(text)) for text in texts])

    def _examples(self, task: Task, input: Input) -> list[dict[str, Any]]:
        """All examples as one question with one answer, of the form that rows have."""
        if not task.examples:
            return []
        found = [
            (self._prompt.render(example_fields(example, self._prompt, input.text or "text", at)), answer_text(example))
            for at, example in enumerate(task.examples)
        ]
        questions = _keyed(encode(question) for question, _text in found)
        answers = _keyed(encode(text) if task.answer_schema is None else text for _question, text in found)
        return [message("user", questions), message("assistant", answers)]


def _keyed(values: Any) -> str:
    found = list(values)
    pairs = (f'"{key}": {value}' for key, value in zip(keys(len(found)), found, strict=True))
    return "{\n" + ",\n".join(pairs) + "\n}"
