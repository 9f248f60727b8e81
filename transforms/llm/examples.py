"""Few-shot examples: questions that are shown to the model with their answers, before each row's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from transforms.llm.answers import AnswerParser
from transforms.llm.completion import Completion
from transforms.llm.errors import RowError
from transforms.llm.prompt import encode, message
from transforms.llm.template import Template
from transforms.settings import Example, Task


def example_messages(task: Task, prompt: Template, text_column: str) -> list[dict[str, Any]]:
    """A user's and an assistant's message for each example of the task. `text_column` is what {text} stands for.
    Raises ValueError, naming the setting, for an example whose question cannot be put."""
    found = []
    for at, example in enumerate(task.examples):
        fields = example_fields(example, prompt, text_column, at)
        found += [message("user", prompt.render(fields)), message("assistant", answer_text(example))]
    return found


def check_answers(task: Task) -> None:
    """Raises ValueError, naming the setting, for an example whose answer would not count as one."""
    if not task.examples:
        return
    parser = AnswerParser(task.answer_schema)
    for at, example in enumerate(task.examples):
        where = f"task.examples.{at}.answer"
        if task.answer_schema is None and not isinstance(example.answer, str):
            raise ValueError(f"{where}: must be text, as there is no task.schema")
        try:
            parser.parse(Completion(answer_text(example), finish_reason="stop"))
        except RowError as error:
            raise ValueError(f"{where}: {error.message}") from None


def example_fields(example: Example, prompt: Template, text_column: str, at: int) -> Mapping[str, Any]:
    """The columns of the example in that place. Raises ValueError, naming the setting, as example_messages does."""
    where = f"task.examples.{at}.input"
    fields = {text_column: example.input} if isinstance(example.input, str) else example.input
    try:
        used = prompt.columns(fields)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    unused = [name for name in fields if name not in used]
    if unused:
        raise ValueError(f"{where}: the prompt does not use {', '.join(unused)}")
    return fields


def answer_text(example: Example) -> str:
    """The answer as a model would write it."""
    return example.answer if isinstance(example.answer, str) else encode(example.answer)
