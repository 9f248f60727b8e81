"""How far two columns agree, counted as a stream: answers with what is right, or the answers of two runs.

Values are compared as text: a string without the white space around it, all else as canonical JSON, in which a
whole number is written without a fraction. So what a file gives as 5 or 5.0 agrees with the answer 5.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from transforms.records import canonical_json

MOST_LABELS = 100  # distinct values of a column, up to which it holds labels and not texts
OUTPUT_TEXT = "output_text"


def answer_column(schema: Mapping[str, Any] | None, expected: str) -> str:
    """The result column that the input column `expected` says is right or wrong: the only property of the answer's
    schema, else the one with the column's own name; the answer's text where there is no schema. Raises ValueError."""
    if schema is None:
        return OUTPUT_TEXT
    properties = list(schema.get("properties") or {})
    if len(properties) == 1:
        return str(properties[0])
    if expected in properties:
        return expected
    raise ValueError(
        f"task.expected: {expected!r} could be what is right for any of {', '.join(map(repr, properties))}: "
        "name the input's column like the property of task.schema that it is compared with"
    )


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


class Agreement:
    """Counts over pairs of values. `pairs` are those in which neither is null, `equal` those that agree.

    `confusion` counts each (left, right); it is None once a side has more than MOST_LABELS distinct values."""

    def __init__(self) -> None:
        self.pairs = 0
        self.equal = 0
        self.confusion: Counter[tuple[str, str]] | None = Counter()

    def add(self, left: pa.Array, right: pa.Array) -> None:
        """Counts the pairs of two columns of one length, of whatever types."""
        one, other = texts(left, right.type), texts(right, left.type)
        both = pc.and_(pc.is_valid(one), pc.is_valid(other))
        one, other = one.filter(both), other.filter(both)
        self.pairs += len(one)
        self.equal += pc.sum(pc.equal(one, other)).as_py() or 0
        if self.confusion is None:
            return
        counted = pa.table({"left": one, "right": other}).group_by(["left", "right"]).aggregate([([], "count_all")])
        if counted.num_rows > MOST_LABELS**2:
            self.confusion = None
            return
        for row in counted.to_pylist():
            self.confusion[row["left"], row["right"]] += row["count_all"]
        if any(len(set(side)) > MOST_LABELS for side in zip(*self.confusion, strict=True)):
            self.confusion = None

    @property
    def share(self) -> float | None:
        """The share of pairs that agree, None where there is no pair."""
        return self.equal / self.pairs if self.pairs else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa, the agreement beyond that of chance: (p_o - p_e) / (1 - p_e), where p_o is the share that
        agrees and p_e the share that would if both sides drew their labels at random, each as often as it used them.
        None where that is not defined: without pairs, for texts, or where both have one and the same label only.

        Jacob Cohen: A coefficient of agreement for nominal scales. Educational and Psychological Measurement 20 (1),
        1960, pp. 37-46, https://doi.org/10.1177/001316446002000104."""
        if not self.pairs or self.confusion is None:
            return None
        left: Counter[str] = Counter()
        right: Counter[str] = Counter()
        for (one, other), count in self.confusion.items():
            left[one] += count
            right[other] += count
        by_chance = sum(left[label] * right[label] for label in left)
        if by_chance == self.pairs**2:
            return None
        return (self.equal * self.pairs - by_chance) / (self.pairs**2 - by_chance)
