"""Why rows failed, and some of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.report.quoted import INPUT_CHARS, LABEL_CHARS, MESSAGE_CHARS, shown
from transforms.records import Row, canonical_json
from transforms.statistics import Statistics


def reasons(statistics: Statistics, text_column: str) -> list[dict[str, Any]]:
    """What the template shows of failures, the most frequent reason first. `text_column` is the one of an input that
    is quoted; of an input without it, all is."""
    ordered = statistics.reasons.ordered()
    most = max((count.rows for count in ordered), default=1)
    return [
        {
            "name": shown(count.reason, LABEL_CHARS),
            "rows": count.rows,
            "retryable": count.retryable,
            "share": count.rows / statistics.failed,
            "length": count.rows / most,
            "examples": [_example(row, text_column) for row in count.examples],
        }
        for count in ordered
    ]


def _example(row: Row, text_column: str) -> dict[str, str]:
    value = row.get("input")
    text = value.get(text_column) if isinstance(value, Mapping) else value
    if not isinstance(text, str):
        text = "" if value is None else canonical_json(value)
    source = row.get("source") or {}
    return {
        "id": "no id" if row.get("id") is None else shown(row["id"], LABEL_CHARS),
        "message": shown(row.get("message") or "", MESSAGE_CHARS),
        "input": shown(text, INPUT_CHARS),
        "source": shown(f"{source.get('file')}, {source.get('position')}", LABEL_CHARS) if source else "",
    }
