"""From a row's columns to what the model is asked about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from transforms.llm.conversation import conversation
from transforms.llm.examples import example_messages
from transforms.llm.images import image_part, image_urls
from transforms.llm.prompt import Prompt, encode, message
from transforms.llm.row_parameters import RowParameters, output_limit
from transforms.llm.template import Template, column_value
from transforms.settings import Input, Model, Task


class Prompts:
    """Makes the prompts of one task. Safe for threads. Raises ValueError, naming the setting, for what no prompt can
    be made of."""

    def __init__(self, task: Task, input: Input, model: Model) -> None:
        if task.image_columns and model.provider == "embedded":
            raise ValueError("task.images: the embedded model reads text only; choose another model.provider")
        alias = {"text": input.text} if input.text else {}
        self._task = task
        self._provider = model.provider
        self._images = task.image_columns
        self._system = Template(task.system, alias)
        self._prompt = Template(task.prompt, alias)
        self._parameters = RowParameters(task.parameters_from, model)
        shown = example_messages(task, self._prompt, input.text or "text")
        self._shown_characters = sum(len(each["content"]) for each in shown)
        # A JSON list up to the place where the row's own message goes.
        self._start = encode(shown)[:-1] + (", " if shown else "")

    @property
    def cuttable(self) -> bool:
        """Whether a text column can be shortened and still be what it was."""
        return self._task.messages is None

    def check(self, columns: Iterable[str], where: str = "the input") -> None:
        """Raises ValueError, naming the setting, for a column that is not among those of `where`."""
        known = list(columns)
        for key, template in (("task.system", self._system), ("task.prompt", self._prompt)):
            try:
                template.check(known)
            except ValueError as error:
                raise ValueError(f"{key}: {where}: {error}") from None
        named = [(f"task.parameters_from.{name}", column) for name, column in self._task.parameters_from.items()]
        named += [("task.images", column) for column in self._images]
        if self._task.messages is not None:
            named.append(("task.messages", self._task.messages))
        for key, column in named:
            if column not in known and column.partition(".")[0] not in known:
                raise ValueError(f"{key}: {where} has no column {column!r}; its columns are: {', '.join(known)}")

    def values(self, fields: Mapping[str, Any]) -> dict[str, str]:
        """The texts that the row puts into its prompt, by column; those of images' columns are left empty.
        Raises ValueError as render() does."""
        column = self._task.messages
        if column is None:
            return {**dict.fromkeys(self._images, ""), **self._prompt.values(fields)}
        found = conversation(column_value(column, fields), column, self._provider)
        return {column: "".join(found.texts) if found else ""}

    def shows_image(self, fields: Mapping[str, Any]) -> bool:
        """Whether there is an image in the row's prompt. Raises ValueError as render() does."""
        column = self._task.messages
        if column is None:
            return bool(self._images) and bool(self._urls(fields))
        found = conversation(column_value(column, fields), column, self._provider)
        return found is not None and found.images > 0

    def check_row(self, fields: Mapping[str, Any]) -> None:
        """Raises ValueError, naming the column, for a row that no prompt can be made of."""
        if self._task.parameters_from:
            self._parameters.values(fields)
        if self._images:
            self._urls(fields)
        if self._task.messages is not None:
            self.values(fields)

    def render(self, fields: Mapping[str, Any]) -> Prompt:
        """The row's prompt. A column that the row lacks is an empty text, like null. Raises ValueError where
        check_row() does, and for a conversation without messages."""
        prompt = self._question(fields) if self._task.messages is None else self._conversation(fields)
        if not self._task.parameters_from:
            return prompt
        parameters = self._parameters.values(fields)
        return prompt._replace(parameters=encode(parameters)[1:-1], output_limit=output_limit(parameters))

    def _question(self, fields: Mapping[str, Any]) -> Prompt:
        system, user = self._system.render(fields), self._prompt.render(fields)
        content: Any = user
        urls = self._urls(fields) if self._images else []
        if urls:
            # Images first, which is where models attend to them best; a text part must not be empty.
            text = [{"type": "text", "text": user}] if user.strip() else []
            content = [*(image_part(url, self._provider) for url in urls), *text]
        messages = f"{self._start}{encode(message('user', content))}]"
        characters = len(system) + self._shown_characters + len(user)
        return Prompt(system, messages, text_characters=characters, images=len(urls))

    def _conversation(self, fields: Mapping[str, Any]) -> Prompt:
        column = self._task.messages or ""
        found = conversation(column_value(column, fields), column, self._provider)
        if found is None:
            raise ValueError(f"column {column!r} holds no messages")
        characters = sum(map(len, found.texts))
        return Prompt(found.system, encode(found.messages), text_characters=characters, images=found.images)

    def _urls(self, fields: Mapping[str, Any]) -> list[str]:
        return [url for column in self._images for url in image_urls(column_value(column, fields), column)]
