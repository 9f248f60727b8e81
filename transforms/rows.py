"""The rows that a run writes: their columns, and how they are made."""

from __future__ import annotations

import base64
import time
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

from transforms.records import Row, utc
from transforms.settings import Settings

# Reasons that are found before a call: they cost nothing and each run finds them anew, so they are not carried over.
UNCALLED = frozenset({"bad_record", "bad_encoding", "bad_id", "duplicate_id", "empty_input", "oversized_input"})

ARROW_TYPES: Mapping[str, pa.DataType] = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "json": pa.string(),
}

_SERIALIZED = "arrow:"
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

# Columns of results whose answers can be shared with other rows, after the last ones.
RECORDS_IN_CALL = "records_in_call"  # how many rows shared the call that gave the answer (task.records_per_call)
SHARED_FROM = "shared_from"  # the id of the row whose answer this is too, as their requests were the same
SHARING_COLUMNS = [(RECORDS_IN_CALL, pa.int64()), (SHARED_FROM, pa.string())]


class RunStamp(NamedTuple):
    """What every row of a run carries to say which run made it, and from which task."""

    run_id: str
    task_hash: str


def type_of(name: str) -> pa.DataType:
    """The Arrow type that a name stands for: one of ARROW_TYPES, or what `type_name` gave."""
    if name in ARROW_TYPES:
        return ARROW_TYPES[name]
    if name.startswith(_SERIALIZED):
        buffer = pa.BufferReader(base64.b64decode(name.removeprefix(_SERIALIZED)))
        return pa.ipc.read_schema(buffer).field(0).type
    return pa.type_for_alias(name)


def type_name(kind: pa.DataType) -> str:
    """A name for any Arrow type, which JSON holds: Arrow's own where it has one, else the type in Arrow's bytes."""
    for name, known in ARROW_TYPES.items():
        if kind == known:
            return name
    try:
        if pa.type_for_alias(str(kind)) == kind:
            return str(kind)
    except ValueError:
        pass
    return _SERIALIZED + base64.b64encode(pa.schema([("", kind)]).serialize().to_pybytes()).decode()


def result_schema(
    answer: Mapping[str, pa.DataType],
    carried: Mapping[str, pa.DataType],
    *,
    expected: bool = False,
    sharing: Collection[str] = (),
) -> pa.Schema:
    """The columns of the results, with one for what is right if `expected`, and those of SHARING_COLUMNS that are
    named in `sharing`. Raises ValueError, naming the column, where two would have one name."""
    said = [(EXPECTED, pa.string())] if expected else []
    shared = [(name, kind) for name, kind in SHARING_COLUMNS if name in sharing]
    columns = [("id", pa.string()), *answer.items(), *carried.items(), *said, *LAST_COLUMNS, *shared]
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


def sharing_columns(settings: Settings) -> list[str]:
    """Those of SHARING_COLUMNS that the results of a run have."""
    wanted = {RECORDS_IN_CALL: settings.task.records_per_call > 1, SHARED_FROM: settings.shares_identical}
    return [name for name, is_wanted in wanted.items() if is_wanted]


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
