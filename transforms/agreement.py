"""When two values agree: answers with what is right, or the answers of two runs.

Values are compared as text: a string without the white space around it, all else as canonical JSON, in which a
whole number is written without a fraction. So what a file gives as 5 or 5.0 agrees with the answer 5.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from transforms.records import canonical_json
from transforms.rows import EXPECTED

OUTPUT_TEXT = "output_text"


def answer_column(schema: Mapping[str, Any] | None, expected: str | None) -> str:
    """The result column that the input column `expected` says is right or wrong: the only property of the answer's
    schema, else the one with the column's own name; the answer's text where there is no schema. Raises ValueError."""
    if schema is None:
        return OUTPUT_TEXT
    properties = list(schema.get("properties") or {})
    if len(properties) == 1:
        return str(properties[0])
    if expected is not None and expected in properties:
        return expected
    raise ValueError(
        f"task.expected: {expected!r} could be what is right for any of {', '.join(map(repr, properties))}: "
        "name the input's column like the property of task.schema that it is compared with"
    )


def judged_column(config: Mapping[str, Any]) -> str | None:
    """The result column that the results' column `expected` says is right or wrong, by the configuration of the last
    run. That need not name an input column: results of earlier runs may say what is right. None where there is none,
    or where it is not said which."""
    task, carried = config.get("task") or {}, (config.get("input") or {}).get("carry") or ()
    schema, named = task.get("schema"), task.get("expected")
    if named is None and (EXPECTED in carried or EXPECTED in ((schema or {}).get("properties") or {})):
        return None  # a column of that name says something else
    try:
        return answer_column(schema, named)
    except ValueError:
        return None


def expected_text(value: Any) -> str | None:
    """A value of an input column as its result column holds it: text as it is, all else as JSON, null as null."""
    return value if value is None or isinstance(value, str) else canonical_json(value)


def texts(values: pa.Array, like: pa.DataType | None = None) -> pa.Array:
    """A column of any type as the text that is compared. With `like`, the type of the column that it is compared
    with, texts that are numbers or booleans are read as those where that column holds such."""
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), pa.string())
    if pa.types.is_nested(values.type):
        return pa.array([_text(value, None) for value in values.to_pylist()], pa.string())
    encoded = values.dictionary_encode() if not pa.types.is_dictionary(values.type) else values
    found = pa.array([_text(value, like) for value in encoded.dictionary.to_pylist()], pa.string())
    return pc.take(found, encoded.indices)


def _text(value: Any, like: pa.DataType | None) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        return canonical_json(_plain(value))
    text = value.strip()
    if like is None or not _reads_as_json(like):
        return text
    try:
        read = json.loads(text.lower())
        return canonical_json(_plain(read)) if isinstance(read, (bool, int, float)) else text
    except ValueError:  # also for what is no finite number
        return text


def _reads_as_json(kind: pa.DataType) -> bool:
    return bool(pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
