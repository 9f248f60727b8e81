"""What is wrong with a configuration, in lines that name the key as the user wrote it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from pipelines.keys import holds_secret, keys_beside, nearest_key
from transforms.llm.secrets import masked

# Keys of which a value may have one of several shapes: what pydantic says of each shape in turn helps nobody.
_SHAPES = {
    "input.path": "must be text or a list of texts",
    "task.images": "must be a column or a list of columns",
    "input.carry": "must be a list of columns, or a mapping to types: string, integer, number, boolean, json",
}
_KINDS = {
    "missing": "missing",
    "bool": "must be true or false",
    "dict": "must be a mapping",
    "float": "must be a number",
    "int": "must be a whole number",
    "list": "must be a list",
    "model": "must be a mapping",
    "string": "must be text",
    "string_too_short": "must not be empty",
}
_WRONG_TYPE = re.compile("_(type|parsing|from_float)$")  # the ends of pydantic's names for a value of another type
_SHOWN = 60  # characters of a wrong value


def mistakes(error: ValidationError, path: str, flags: Mapping[str, str]) -> list[str]:
    """A line for each key that is wrong, e.g. `x.yaml: model.nam: unknown key, did you mean model.name?`.

    `flags` are the keys that the command line gave, with the flag to name in place of the file."""
    lines: dict[str, str] = {}  # by key: several errors of one are the same mistake seen from several sides
    for detail in error.errors(include_url=False):
        key = _key(detail["loc"])
        lines.setdefault(key, f"{_where(key, path, flags)}: {_problem(key, detail)}")
    return [masked(line) for line in lines.values()]


def _where(key: str, path: str, flags: Mapping[str, str]) -> str:
    for given, flag in flags.items():
        if key == given:
            return flag
        if key.startswith(f"{given}."):
            return f"{flag}: {key}"
    return f"{path}: {key}"


def _key(loc: tuple[int | str, ...]) -> str:
    """The dotted key of an error, without what pydantic adds for the shapes that a value may have."""
    key = ".".join(map(str, loc))
    return next((shaped for shaped in _SHAPES if key.startswith(f"{shaped}.")), key)


def _problem(key: str, detail: ErrorDetails) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        return _unknown(key)
    if kind == "value_error":  # raised by Settings itself, in words of its own
        return str(detail["ctx"]["error"])
    text = _SHAPES.get(key) or _KINDS.get(kind) or _KINDS.get(_WRONG_TYPE.sub("", kind))
    if text is None and kind == "literal_error":
        choices = detail["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        text = f"must be {'one of ' if ',' in choices else ''}{choices}"
    if text is None:
        text = detail["msg"].replace("Input should", "must").replace("String should", "must")
    if kind in ("missing", "string_too_short") or holds_secret(key) or isinstance(value, (dict, list)):
        return text
    shown = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return f"{text}, got {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '…'}"


def _unknown(key: str) -> str:
    near = nearest_key(key)
    if near is not None:
        return f"unknown key, did you mean {near}?"
    section = key.rpartition(".")[0] or "the configuration"
    return f"unknown key, {section} has {', '.join(keys_beside(key))}"
