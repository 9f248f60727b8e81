"""Parameters of the model that a row sets for itself, by its columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from transforms.llm.defaults import parameters
from transforms.llm.template import column_value
from transforms.settings import Model

_OUTPUT_LIMITS = ("max_completion_tokens", "max_tokens")
_COUNTS = (*_OUTPUT_LIMITS, "top_k")
_NUMBERS = ("temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty")
# What would make one row's question, answer or price another kind of thing than the task says.
_FIXED = ("model", "messages", "system", "stream", "n", "response_format", "tools", "tool_choice")
_SHOWN = 60  # characters of a wrong value


class RowParameters:
    """`columns` are task.parameters_from. Raises ValueError, naming the setting, for what no row can set."""

    def __init__(self, columns: Mapping[str, str], model: Model) -> None:
        for name in columns:
            if name in _FIXED:
                raise ValueError(f"task.parameters_from.{name}: it is the same for all rows")
        defaults = parameters(model)
        self._columns = dict(columns)
        self._defaults = {name: defaults.get(name) for name in columns}

    def values(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """The row's own parameters, and those of model.parameters where its columns are null or empty. Raises
        ValueError that names the column whose value a parameter cannot have."""
        found = {}
        for name, column in self._columns.items():
            value = column_value(column, fields)
            value = self._defaults[name] if value is None or value == "" else _checked(name, value, column)
            if value is not None:
                found[name] = value
        return found


def output_limit(parameters: Mapping[str, Any]) -> int | None:
    """The most tokens of an answer that parameters allow; None if they do not say."""
    return next((parameters[name] for name in _OUTPUT_LIMITS if isinstance(parameters.get(name), int)), None)


def _checked(name: str, value: Any, column: str) -> Any:
    """The value as it is sent: a number also where the column, as all of CSV's, is text."""
    if name in _COUNTS:
        number = _number(value)
        if number is not None and number.is_integer() and number >= 1:
            return int(number)
        raise _wrong(name, value, column, "a whole number from 1")
    if name == "seed":
        number = _number(value)
        if number is not None and number.is_integer():
            return value if isinstance(value, int) else int(number)
        raise _wrong(name, value, column, "a whole number")
    if name in _NUMBERS:
        number = _number(value)
        if number is not None:
            return number if not isinstance(value, int) else value
        raise _wrong(name, value, column, "a number")
    return value


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _wrong(name: str, value: Any, column: str, wanted: str) -> ValueError:
    return ValueError(f"column {column!r} holds {str(value)[:_SHOWN]!r}: {name} must be {wanted}")
