"""The elements of the graph: a record that is read, and the row that it ends as.

Everything that travels between steps is one of these, of plain Python values only, so that any engine's coder
takes it and a journal line holds it.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timezone
from typing import Any, NamedTuple

Fields = dict[str, Any]
Row = dict[str, Any]


class Record(NamedTuple):
    """One input row. `file` and `position` (a byte offset after decompression, in Parquet the row's number) say
    where it stands, `span` which range of the input it was read with: the unit in which an engine repeats work."""

    id: str
    fields: Fields
    file: str
    position: int
    span: str

    @property
    def source(self) -> Row:
        """File and position, as a failure row keeps them."""
        return {"file": self.file, "position": self.position}


def canonical_json(value: Any) -> str:
    """`value` as strict JSON, one text for equal values: sorted keys, no spaces. Raises ValueError for NaN."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)


def compact_json(value: Any) -> str:
    """`value` as strict JSON without spaces, its keys as they are. Raises ValueError for NaN."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def as_text(value: Any) -> str:
    """What stands in a text column: text as it is, all else as JSON."""
    return value if isinstance(value, str) else compact_json(value)


def content_id(fields: Fields) -> str:
    """The id of a record that has no id column: a hash of its canonical JSON, 32 hexadecimal digits."""
    return hashlib.blake2b(canonical_json(fields).encode(), digest_size=16).hexdigest()


def utc(timestamp: float) -> str:
    """A Unix time as ISO 8601 in UTC with milliseconds, e.g. 2026-01-31T08:00:00.000Z."""
    return datetime.fromtimestamp(timestamp, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
