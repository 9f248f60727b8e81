"""Arrow's values as what JSON holds, and back again.

| Arrow                            | JSON                                                                        |
|----------------------------------|-----------------------------------------------------------------------------|
| timestamp                        | ISO 8601, with a zone as the moment in UTC: 2026-01-31T08:00:00.25Z         |
| date, time                       | ISO 8601: 2026-01-31, 08:00:00.25                                           |
| duration                         | ISO 8601, in seconds: PT90.5S, -PT1S                                        |
| decimal                          | text with all its digits: "12.3400"                                         |
| binary                           | base64                                                                      |
| map                              | an object where keys are text, else a list of [key, value]                  |
| NaN, infinity                    | null                                                                        |
| dictionary-encoded, UUID         | the value, the UUID's text                                                  |
| integers of any size, text, list, struct | as they are                                                         |
"""

from __future__ import annotations

import base64
import re
import uuid
from datetime import time
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from transforms.parse import is_clean, replaced

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DURATION = re.compile(r"(-?)PT(\d+)(?:\.(\d+))?S")
_MOMENT = re.compile(r"-?\d{4,}-\d\d-\d\d(?:T|$)")
_UUID = "arrow.uuid"


def is_id(kind: pa.DataType) -> bool:
    """Whether a column of that type can hold ids."""
    kind = _without_wrapping(kind)
    return _is_text(kind) or pa.types.is_integer(kind) or pa.types.is_null(kind) or _is_uuid(kind)


def is_plain(kind: pa.DataType) -> bool:
    """Whether JSON's values are those of that type, so that `typed_value` has nothing to do."""
    return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind) or _is_text(kind))


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type that results carry a column of `kind` with: the same, without what only says how it is stored."""
    kind = _without_wrapping(kind)
    if _is_text(kind) or _is_uuid(kind) or pa.types.is_null(kind):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return value_type(kind.storage_type)
    if _is_binary(kind):
        return pa.binary()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_map(kind):
        return pa.map_(value_type(kind.key_type), value_type(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, value_type(field.type)) for field in kind])
    if _is_list(kind):
        return pa.list_(value_type(kind.value_type))
    return kind


def plain_values(array: pa.Array) -> list[Any]:
    """The values of an array. Raises UnicodeDecodeError for text that is not UTF-8."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return plain_values(array.dictionary_decode())
    if _is_uuid(kind):
        return [None if value is None else str(uuid.UUID(bytes=value)) for value in array.storage.to_pylist()]
    if isinstance(kind, pa.BaseExtensionType):
        return plain_values(array.storage)
    if _is_text(kind):
        return _texts(array)
    if pa.types.is_floating(kind):
        return _floats(array)
    if pa.types.is_timestamp(kind):
        naive = array.cast(pa.int64()).cast(pa.timestamp(kind.unit))
        zone = "Z" if kind.tz else ""
        texts = pc.strftime(naive, format="%Y-%m-%dT%H:%M:%S").to_pylist()
        return [None if text is None else _short(text) + zone for text in texts]
    if pa.types.is_date(kind):
        return list(pc.strftime(array.cast(pa.timestamp("s")), format="%Y-%m-%d").to_pylist())
    if pa.types.is_time(kind):
        return [None if text is None else _short(text) for text in array.cast(pa.string()).to_pylist()]
    if pa.types.is_duration(kind):
        counts = array.cast(pa.int64()).to_pylist()
        return [None if count is None else _duration(count, _PER_SECOND[kind.unit]) for count in counts]
    if pa.types.is_decimal(kind):
        return [None if value is None else format(value, "f") for value in array.to_pylist()]
    if _is_binary(kind):
        return [None if value is None else base64.b64encode(value).decode() for value in array.to_pylist()]
    if pa.types.is_map(kind):
        return _maps(array)
    if pa.types.is_struct(kind):
        return _structs(array)
    if _is_list(kind):
        return _lists(array)
    return list(array.to_pylist())


def typed_value(value: Any, kind: pa.DataType) -> Any:
    """What makes an array of type `kind` out of a value as `plain_values` gave it. Raises ValueError or TypeError."""
    if value is None:
        return None
    if pa.types.is_timestamp(kind):
        return _moment(value, kind.unit)
    if pa.types.is_date(kind):  # not by datetime, which has the years 1 to 9999 alone
        return _moment(value, "D") * (1 if pa.types.is_date32(kind) else 86_400_000)
    if pa.types.is_time(kind):
        whole, _, fraction = value.partition(".")
        at = time.fromisoformat(whole)
        seconds = at.hour * 3600 + at.minute * 60 + at.second
        return seconds * _PER_SECOND[kind.unit] + _parts(fraction, kind.unit)
    if pa.types.is_duration(kind):
        match = _DURATION.fullmatch(value)
        if match is None:
            raise ValueError(f"{value!r} is no duration in seconds")
        count = int(match[2]) * _PER_SECOND[kind.unit] + _parts(match[3] or "", kind.unit)
        return -count if match[1] else count
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if _is_binary(kind):
        return base64.b64decode(value, validate=True)
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return [(typed_value(key, kind.key_type), typed_value(item, kind.item_type)) for key, item in pairs]
    if pa.types.is_struct(kind):
        return {field.name: typed_value(value.get(field.name), field.type) for field in kind}
    if _is_list(kind):
        return [typed_value(item, kind.value_type) for item in value]
    return value


def _without_wrapping(kind: pa.DataType) -> pa.DataType:
    return _without_wrapping(kind.value_type) if pa.types.is_dictionary(kind) else kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _is_binary(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _is_uuid(kind: pa.DataType) -> bool:
    return getattr(kind, "extension_name", None) == _UUID


def _texts(array: pa.Array) -> list[str | None]:
    try:
        return list(array.to_pylist())
    except UnicodeDecodeError:  # lone surrogates, as some writers leave them, are no reason to lose the row
        raw = array.cast(pa.large_binary()).to_pylist()
        return [None if value is None else replaced(value.decode("utf-8", "surrogatepass")) for value in raw]


def _floats(array: pa.Array) -> list[float | None]:
    if not pa.types.is_float64(array.type):  # the shortest digits that name the value: 0.1, not 0.10000000149011612
        kind = np.float32 if pa.types.is_float32(array.type) else np.float16
        values = [None if value is None else float(str(kind(value))) for value in array.to_pylist()]
    else:
        values = array.to_pylist()
    return [value if value is None or value - value == 0.0 else None for value in values]


def _lists(array: pa.Array) -> list[list[Any] | None]:
    items = iter(plain_values(array.flatten()))
    lengths = pc.list_value_length(array).to_pylist()
    return [None if length is None else [next(items) for _ in range(length)] for length in lengths]


def _structs(array: pa.Array) -> list[dict[str, Any] | None]:
    names = [_clean_name(field.name) for field in array.type]
    rows = zip(*map(plain_values, array.flatten()), strict=True) if names else ((),) * len(array)
    there = array.is_valid().to_pylist()
    return [dict(zip(names, row, strict=True)) if ok else None for ok, row in zip(there, rows, strict=True)]


def _maps(array: pa.Array) -> list[Any]:
    bounds = array.offsets.to_pylist()
    first, length = bounds[0], bounds[-1] - bounds[0]
    keys = plain_values(array.keys.slice(first, length))
    items = plain_values(array.items.slice(first, length))
    by_text = _is_text(_without_wrapping(array.type.key_type))
    found: list[Any] = []
    for there, start, end in zip(array.is_valid().to_pylist(), bounds[:-1], bounds[1:], strict=True):
        pairs = zip(keys[start - first : end - first], items[start - first : end - first], strict=True)
        found.append(None if not there else dict(pairs) if by_text else [list(pair) for pair in pairs])
    return found


def _clean_name(name: str) -> str:
    return name if is_clean(name) else replaced(name)


def _short(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _duration(count: int, per_second: int) -> str:
    seconds, parts = divmod(abs(count), per_second)
    fraction = f".{parts:0{len(str(per_second)) - 1}d}" if parts else ""
    return f"{'-' if count < 0 else ''}PT{seconds}{_short(fraction) if fraction else ''}S"


def _moment(text: str, unit: Any) -> int:
    if not _MOMENT.match(text):  # numpy takes words as well
        raise ValueError(f"{text!r} is no date")
    return int(np.datetime64(text.removesuffix("Z"), unit).astype(np.int64))


def _parts(digits: str, unit: str) -> int:
    width = len(str(_PER_SECOND[unit])) - 1
    return int(digits[:width].ljust(width, "0") or 0)
