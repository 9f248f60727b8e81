"""What makes the values of an answer fit their columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.llm.text import storable
from transforms.records import canonical_json

_SMALLEST, _LARGEST = -(2**63), 2**63 - 1


class Column(NamedTuple):
    """A column's Arrow type, and what makes a value of an answer fit it: the value as it is stored, or
    ValueError. None is stored as None, without asking `convert`."""

    type: pa.DataType
    convert: Callable[[Any], Any]


def convert_fields(fields: dict[str, Column], value: dict[str, Any]) -> dict[str, Any]:
    """The value of each of `fields`, None where `value` has none. Raises ValueError that names the field."""
    converted: dict[str, Any] = {}
    for name, column in fields.items():
        found = value.get(name)
        try:
            converted[name] = None if found is None else column.convert(found)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    return converted


def list_column(item: Column) -> Column:
    """A list of `item`s or nulls."""

    def convert(value: Any) -> Any:
        return [None if each is None else item.convert(each) for each in _instance(value, list)]

    return Column(pa.list_(item.type), convert)


def struct_column(fields: dict[str, Column]) -> Column:
    """A struct. What an answer has beside its fields is left out."""

    def convert(value: Any) -> Any:
        return convert_fields(fields, _instance(value, dict))

    return Column(pa.struct([(name, field.type) for name, field in fields.items()]), convert)


def _instance(value: Any, kind: type) -> Any:
    # The schema has been checked before; this holds where a part of it was not, as beside a $ref.
    if not isinstance(value, kind):
        raise ValueError(f"{type(value).__name__} instead of {kind.__name__}")
    return value


def _string(value: Any) -> str:
    return storable(_instance(value, str))


def _boolean(value: Any) -> bool:
    return bool(_instance(value, bool))


def _integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():  # 1.0 is an integer to JSON Schema
        value = int(value)
    if isinstance(value, bool) or not _SMALLEST <= _instance(value, int) <= _LARGEST:
        raise ValueError("not a 64-bit integer")
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("bool instead of a number")
    try:
        return float(value)
    except (TypeError, OverflowError):
        raise ValueError("not a 64-bit floating-point number") from None


def _json(value: Any) -> str:
    return storable(canonical_json(value))


JSON = Column(pa.string(), _json)  # any value at all, as JSON text
SCALARS = {
    "string": Column(pa.string(), _string),
    "integer": Column(pa.int64(), _integer),
    "number": Column(pa.float64(), _number),
    "boolean": Column(pa.bool_(), _boolean),
}
