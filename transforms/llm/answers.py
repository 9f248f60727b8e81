"""From a model's answer to the values of a row's columns, or to the reason why it does not count."""

from __future__ import annotations

from typing import Any, NamedTuple

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from transforms.llm.answer_json import json_in, without_thought
from transforms.llm.cells import Column, convert_fields
from transforms.llm.columns import answer_columns
from transforms.llm.completion import Completion
from transforms.llm.errors import RowError, RowReason

_TOOLS = ("tool_calls", "function_call")  # the finish_reason of an answer that is a call
TRUNCATED = "length"  # the finish_reason of an answer that was cut
_CUT = (TRUNCATED, "max_tokens", "model_length")  # OpenAI's, and what some who follow it say instead


class Parsed(NamedTuple):
    """Column -> value, all of the schema's columns and nothing else; {} without a schema. `unwrapped`: the JSON was
    found inside a fence or after a <think> block. `truncated`: it was cut, and is kept as it is."""

    values: dict[str, Any]
    unwrapped: bool = False
    truncated: bool = False


class AnswerParser:
    """Takes the answers to one task. `schema` is the task's JSON Schema (draft 2020-12) of an object, None if
    the text is the answer. `keep_truncated`: a text counts also where it was cut. Raises ValueError, naming the place,
    for a schema that cannot be used."""

    def __init__(self, schema: dict[str, Any] | None, *, keep_truncated: bool = False) -> None:
        self._keep_truncated = keep_truncated and schema is None
        self._columns: dict[str, Column] = {}
        if schema is not None:
            try:
                Draft202012Validator.check_schema(schema)
            except SchemaError as error:
                raise ValueError(f"task.schema{error.json_path.removeprefix('$')}: {error.message}") from None
            _check_references(schema)
            self._columns = answer_columns(schema)
            # With a registry of its own it never fetches a $ref over the network.
            self._validator = Draft202012Validator(schema, registry=Registry())

    def parse(self, completion: Completion) -> Parsed:
        """The values of an answer.

        Raises RowError, with the completion, for an answer that is filtered, refused, cut, empty, no JSON (see
        answer_json.py) or not what the schema says.
        """
        text, truncated = self.text(completion)
        if not self._columns:
            return Parsed({}, truncated=truncated)
        try:
            value, unwrapped = json_in(text)
        except ValueError as error:
            raise rejected("invalid_json", str(error), completion) from None
        return Parsed(self.values(value, completion), unwrapped)

    def values(self, value: Any, completion: Completion) -> dict[str, Any]:
        """The columns of one answer's JSON `value`. Raises RowError for one that is not what the schema says."""
        if not self._validator.is_valid(value):
            worst = best_match(self._validator.iter_errors(value))
            raise rejected("schema_mismatch", f"{worst.json_path}: {worst.message}", completion)
        try:
            return convert_fields(self._columns, value)
        except ValueError as error:
            raise rejected("schema_mismatch", f"$.{error}", completion) from None

    def text(self, completion: Completion) -> tuple[str, bool]:
        """The text, if the model ended it by itself or it is kept all the same, and whether it was cut. Raises
        RowError where there is none."""
        text = completion.text or ""
        if completion.finish_reason == "content_filter":
            found = f" ({completion.filtered})" if completion.filtered else ""
            raise rejected("content_filter", f"the answer was cut by the provider's content filter{found}", completion)
        if completion.refusal:
            raise rejected("refusal", completion.refusal, completion)
        if completion.finish_reason in _CUT:
            began = without_thought(text).strip()
            if began and self._keep_truncated:
                return text, True
            spent = "before the answer ended" if began else f"on reasoning, before the answer began{_share(completion)}"
            raise rejected("truncated", f"the tokens were used up {spent}; raise max_tokens", completion)
        if completion.text is None and (completion.tool_calls or completion.finish_reason in _TOOLS):
            raise rejected("no_text", "the model called a tool and wrote nothing", completion)
        if not text.strip():
            said = f"no text; finish_reason is {completion.finish_reason}{_share(completion)}"
            raise rejected("empty_output", said, completion)
        return text, False


def _check_references(schema: dict[str, Any]) -> None:
    """Raises ValueError for a $ref that leads out of the schema or nowhere, before any row meets it."""
    resolver = Registry().resolver_with_root(DRAFT202012.create_resource(schema))
    parts: list[Any] = [schema]
    while parts:
        part = parts.pop()
        parts += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        if isinstance(part, dict) and isinstance(part.get("$ref"), str):
            try:
                resolver.lookup(part["$ref"])
            except Unresolvable:
                raise ValueError(f"task.schema: $ref {part['$ref']!r} is not in the schema") from None


def _share(completion: Completion) -> str:
    """How much of the answer was reasoning, where the provider says so."""
    usage = completion.usage
    if not usage.reasoning_tokens:
        return ""
    return f" ({usage.reasoning_tokens} of {usage.completion_tokens} completion tokens)"


def rejected(reason: RowReason, message: str, completion: Completion) -> RowError:
    """The error for an answer that was billed and does not count."""
    return RowError(reason, message, http_status=200, completion=completion)
