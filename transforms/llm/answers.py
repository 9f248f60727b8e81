"""From a model's answer to the values of a row's columns, or to the reason why it does not count."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from transforms.llm.cells import Column, convert_fields
from transforms.llm.columns import answer_columns
from transforms.llm.completion import Completion
from transforms.llm.errors import RowError, RowReason

_THINK, _THOUGHT = "<think>", "</think>"
_TOOLS = ("tool_calls", "function_call")  # the finish_reason of an answer that is a call
_FENCE = re.compile(r"```\w*\s*(.*?)\s*```", re.DOTALL)


class AnswerParser:
    """Takes the answers to one task. `schema` is the task's JSON Schema (draft 2020-12) of an object, None if
    the text is the answer. Raises ValueError, naming the place, for a schema that cannot be used."""

    def __init__(self, schema: dict[str, Any] | None) -> None:
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

    def parse(self, completion: Completion) -> dict[str, Any]:
        """Column -> value, all of the schema's columns and nothing else; {} without a schema.

        Raises RowError, with the completion, for an answer that is filtered, refused, cut, empty, no JSON or
        not what the schema says. The JSON counts as it is, or inside one ``` fence and after one leading
        <think> block (also one whose opening tag the chat template has swallowed). Nothing is repaired.
        """
        text = _text(completion)
        if not self._columns:
            return {}
        value = _json(text, completion)
        if not self._validator.is_valid(value):
            error = best_match(self._validator.iter_errors(value))
            raise _rejected("schema_mismatch", f"{error.json_path}: {error.message}", completion)
        try:
            return convert_fields(self._columns, value)
        except ValueError as error:
            raise _rejected("schema_mismatch", f"$.{error}", completion) from None


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


def _text(completion: Completion) -> str:
    """The text, if the model ended it by itself."""
    text = completion.text or ""
    if completion.finish_reason == "content_filter":
        raise _rejected("content_filter", "the answer was cut by the provider's content filter", completion)
    if completion.refusal:
        raise _rejected("refusal", completion.refusal, completion)
    if completion.finish_reason == "length":
        spent = "before the answer ended" if text.strip() else "on reasoning, before the answer began"
        raise _rejected("truncated", f"the tokens were used up {spent}; raise max_tokens", completion)
    if completion.text is None and (completion.tool_calls or completion.finish_reason in _TOOLS):
        raise _rejected("no_text", "the model called a tool and wrote nothing", completion)
    if not text.strip():
        raise _rejected("empty_output", f"no text; finish_reason is {completion.finish_reason}", completion)
    return text


def _json(text: str, completion: Completion) -> Any:
    problem = ""
    for candidate in _candidates(text):
        try:
            return _decoder.decode(candidate)
        except RecursionError:
            problem = problem or "nested too deeply"
        except ValueError as error:
            problem = problem or str(error)  # of the text as it is: the others are guesses
    raise _rejected("invalid_json", problem, completion)


def _candidates(text: str) -> Iterator[str]:
    """What may be the JSON, the most literal reading first."""
    yield text
    body = text.strip()
    if not body.startswith(_THINK):
        yield from _fenced(body)
    _, thought, rest = body.partition(_THOUGHT)
    if thought:
        yield rest
        yield from _fenced(rest.strip())


def _fenced(text: str) -> tuple[str, ...]:
    """What stands between the marks, if the text is one fence from its first character to its last."""
    fence = _FENCE.fullmatch(text)
    return fence.groups() if fence else ()


def _rejected(reason: RowReason, message: str, completion: Completion) -> RowError:
    return RowError(reason, message, http_status=200, completion=completion)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _float(number: str) -> float:
    value = float(number)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{number} is too large")
    return value


_decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_float=_float)
