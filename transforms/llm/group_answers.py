"""From the answer to several records to what it says of each, or to the reason why it says nothing of one."""

from __future__ import annotations

from typing import Any, NamedTuple

from transforms.llm.answer_json import Doubled, json_in
from transforms.llm.answers import AnswerParser, rejected
from transforms.llm.completion import Completion
from transforms.llm.errors import RowError
from transforms.llm.group_schema import keys
from transforms.llm.prompt import encode
from transforms.llm.text import storable


class Piece(NamedTuple):
    """One record's part of an answer: its columns as in Parsed, and its text, which is JSON where there is a schema."""

    values: dict[str, Any]
    text: str


class GroupParser:
    """Takes the answers to several records at once, each for one of which `schema` holds, as in AnswerParser."""

    def __init__(self, schema: dict[str, Any] | None) -> None:
        self._has_schema = schema is not None
        self._parser = AnswerParser(schema)  # never keeps what was cut: which record it ends in is not known

    def parse(self, completion: Completion, records: int) -> tuple[list[Piece | RowError], bool]:
        """For each record its piece, or the error of one that is missing, there twice, or not what the schema says;
        and whether the JSON was unwrapped. Raises RowError where the answer says nothing of any."""
        text, _cut = self._parser.text(completion)
        try:
            value, unwrapped = json_in(text, doubled=True)
        except ValueError as error:
            raise rejected("invalid_json", str(error), completion) from None
        if not isinstance(value, dict):
            raise rejected("schema_mismatch", f"{type(value).__name__} instead of an object with keys", completion)
        names = keys(records)
        # Keys that nobody asked for, as from 0 on: then the others may stand for other records as well.
        if unknown := [key for key in value if key not in set(names)]:
            raise rejected("schema_mismatch", f"the key {unknown[0]!r} is none of 1 to {records}", completion)
        return [self._piece(value, name, completion) for name in names], unwrapped

    def _piece(self, answers: dict[str, Any], name: str, whole: Completion) -> Piece | RowError:
        if name not in answers:
            return rejected("schema_mismatch", f"no answer under the key {name}", whole._replace(text=None))
        value = answers[name]
        text = storable(value if isinstance(value, str) and not self._has_schema else encode(value))
        completion = whole._replace(text=text)
        if isinstance(answers, Doubled) and name in answers.keys_twice:
            return rejected("invalid_json", f"two answers under the key {name}", completion)
        try:
            return Piece(self._values(value, completion), text)
        except RowError as error:
            return error

    def _values(self, value: Any, completion: Completion) -> dict[str, Any]:
        if _has_doubled(value):
            raise rejected("invalid_json", "an object has a key twice", completion)
        if self._has_schema:
            return self._parser.values(value, completion)
        if not isinstance(value, str):
            raise rejected("schema_mismatch", f"{type(value).__name__} instead of text", completion)
        if not value.strip():
            raise rejected("empty_output", "no text under its key", completion)
        return {}


def _has_doubled(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value, Doubled) or any(map(_has_doubled, value.values()))
    return isinstance(value, list) and any(map(_has_doubled, value))
