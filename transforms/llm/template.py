"""A text with placeholders for the columns of a row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

# {name} and {name.inner}. Every other brace is text, so that a prompt can show JSON without doubling braces.
_PLACEHOLDER = re.compile(r"\{([^\W\d]\w*(?:\.\w+)*)\}")


class Template:
    """A prompt's text. `{name}` stands for a column, `{product.name}` for a value inside a nested one, and
    what `alias` maps a placeholder to is the column it stands for instead. All else is text, `{{` included.

    Placeholders are replaced once: what is inserted is never searched for placeholders.
    """

    def __init__(self, text: str, alias: Mapping[str, str] | None = None) -> None:
        # re.split with one group: text, name, text, name, ..., text
        self._parts = _PLACEHOLDER.split(text)
        self._alias = dict(alias or {})
        self.placeholders = tuple(dict.fromkeys(self._parts[1::2]))
        """As they are written, each once, in order."""

    def render(self, fields: Mapping[str, Any]) -> str:
        """The text with the row's values. A column that the row lacks is an empty text, like null."""
        parts = self._parts.copy()
        for at in range(1, len(parts), 2):
            parts[at] = as_text(self._value(parts[at], fields))
        return "".join(parts)

    def values(self, fields: Mapping[str, Any]) -> dict[str, str]:
        """What the row puts into the prompt: the text of each column that a placeholder stands for."""
        return {self._alias.get(name, name): as_text(self._value(name, fields)) for name in self.placeholders}

    def columns(self, columns: Iterable[str]) -> list[str]:
        """Those of the input's `columns` that the prompt uses, each once. Raises ValueError as `check`
        does."""
        known = list(columns)
        used = [self._column(name, known) for name in self.placeholders]
        return list(dict.fromkeys(used))

    def check(self, columns: Iterable[str]) -> None:
        """Raises ValueError that names the placeholders for which there is no column, and lists the
        columns."""
        self.columns(columns)

    def _column(self, name: str, known: list[str]) -> str:
        column = self._alias.get(name, name)
        if column in known:
            return column
        if (head := column.partition(".")[0]) in known:
            return head
        unknown = f"{{{name}}}" if column == name else f"{{{name}}} (that is {column!r})"
        near = get_close_matches(column, known, n=1)
        hint = f", did you mean {{{near[0]}}}?" if near else ""
        listed = ", ".join(known) or "none"
        raise ValueError(f"unknown placeholder {unknown} in the prompt{hint}; the columns are: {listed}")

    def _value(self, name: str, fields: Mapping[str, Any]) -> Any:
        return column_value(self._alias.get(name, name), fields)


def column_value(column: str, fields: Mapping[str, Any]) -> Any:
    """The value of a column, or by a dotted name that inside of a nested one; None where the row has none."""
    if column in fields or "." not in column:  # a column's own name may have a dot
        return fields.get(column)
    value: Any = fields
    for key in column.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def as_text(value: Any) -> str:
    """A column's value as it stands in a prompt: null is empty, text is itself, all else is JSON."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False, default=str)
