"""What makes the values of a row fit the columns of a table."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pyarrow as pa

from transforms.records import as_text
from transforms.table import TableSpec

REPLACEMENT = "\ufffd"
MAX_ID_BYTES = 2_600  # of an id in PostgreSQL, whose indexes refuse rows of more than 2,704

Convert = Callable[[Any], Any]


def id_problem(identifier: str) -> str | None:
    """Why PostgreSQL cannot hold an id, or None where it can. SQLite holds every id."""
    if "\0" in identifier:
        return "the id holds NUL, which PostgreSQL cannot store"
    if len(identifier) * 4 > MAX_ID_BYTES and len(identifier.encode()) > MAX_ID_BYTES:
        return f"the id has more than {MAX_ID_BYTES} bytes, which PostgreSQL cannot index"
    return None


def converters(spec: TableSpec, schema: pa.Schema) -> list[tuple[str, str, Convert]]:
    """For each column: its name in a row, its name in the statement, and what makes a value fit it."""
    return [(field.name, f"c{number}", _converter(field.type, spec)) for number, field in enumerate(schema)]


def without_nul(value: Any) -> Any:
    """A JSON value with each NUL in its texts, which PostgreSQL refuses, replaced by U+FFFD."""
    if isinstance(value, str):
        return value.replace("\0", REPLACEMENT)
    if isinstance(value, dict):
        return {without_nul(key): without_nul(item) for key, item in value.items()}
    return [without_nul(item) for item in value] if isinstance(value, list) else value


def _converter(kind: pa.DataType, spec: TableSpec) -> Convert:
    if pa.types.is_timestamp(kind):
        return _moment if spec.is_postgresql else str
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_nested(kind):
        return without_nul if spec.is_postgresql else _same
    if pa.types.is_string(kind):
        return _text_without_nul if spec.is_postgresql else as_text
    return _same


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _text_without_nul(value: Any) -> str:
    return as_text(value).replace("\0", REPLACEMENT)


def _same(value: Any) -> Any:
    return value
