"""The rows that a run writes: their columns, and how they are made."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.records import Row, utc

# Reasons that are found before a call: they cost nothing and each run finds them anew, so they are not carried over.
UNCALLED = frozenset({"bad_record", "bad_encoding", "bad_id", "duplicate_id", "empty_input", "oversized_input"})

ARROW_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "json": pa.string(),
}

EXPECTED = "expected"  # the column of what task.expected says is right

LAST_COLUMNS = [
    ("output_text", pa.string()),
    ("model", pa.string()),
    ("finish_reason", pa.string()),
    ("prompt_tokens", pa.int64()),
    ("completion_tokens", pa.int64()),
    ("cached_tokens", pa.int64()),
    ("cost_usd", pa.float64()),
    ("attempts", pa.int64()),
    ("latency_ms", pa.float64()),
    ("run_id", pa.string()),
    ("task_hash", pa.string()),
    ("finished_at", pa.timestamp("ms", tz="UTC")),
]


class RunStamp(NamedTuple):
    """What every row of a run carries to say which run made it, and from which task."""

    run_id: str
    task_hash: str


def result_schema(
    answer: Mapping[str, pa.DataType], carried: Mapping[str, pa.DataType], *, expected: bool = False
) -> pa.Schema:
    """The columns of the results, with one for what is right if `expected`. Raises ValueError, naming the column,
    where two would have one name."""
    said = [(EXPECTED, pa.string())] if expected else []
    columns = [("id", pa.string()), *answer.items(), *carried.items(), *said, *LAST_COLUMNS]
    seen: set[str] = set()
    for name, _type in columns:
        if name in seen:
            also = ", or task.expected, whose column has that name" if expected and name == EXPECTED else ""
            raise ValueError(
                f"two result columns would be named {name!r}: rename the property in task.schema, "
                f"or leave the column out of input.carry{also}"
            )
        seen.add(name)
    return pa.schema(columns)


def failure_row(
    stamp: RunStamp,
    *,
    id: str | None,
    reason: str,
    message: str,
    input: Any,
    source: Row,
    retryable: bool = False,
    http_status: int | None = None,
    attempts: int = 0,
    prompt_tokens: int | None = None,
    completion_tokens: int | None = None,
    cost_usd: float | None = None,
    output_text: str | None = None,
) -> Row:
    """A dead letter. Tokens and dollars are those of an answer that was paid but cannot be used."""
    return {
        "id": id,
        "reason": reason,
        "message": message,
        "retryable": retryable,
        "http_status": http_status,
        "attempts": attempts,
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "cost_usd": cost_usd,
        "output_text": output_text,
        "input": input,
        "source": source,
        "run_id": stamp.run_id,
        "task_hash": stamp.task_hash,
        "failed_at": utc(time.time()),
    }
