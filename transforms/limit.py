"""`--limit N`: at most N records of a run are called, the first ones to do by file and position.

The plan knows how many each span has to do, so each span gets a quota and no worker has to ask another.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from transforms.plan import Plan
from transforms.records import Record
from transforms.tally import TALLY, bundle_tally


def quotas(todo_by_span: dict[str, int], limit: int) -> dict[str, int]:
    """How many records of each span may be called; spans that are not named may not call any."""
    allowed: dict[str, int] = {}
    for span, todo in todo_by_span.items():
        if limit <= 0:
            break
        allowed[span] = min(todo, limit)
        limit -= allowed[span]
    return allowed


@dataclass
class Limit(beam.PTransform):
    """Record -> Record, at most `count` of them. The others are counted as unprocessed. `plan` is a singleton side
    input. A span's records have to come from one bundle, as they do where they are read and called in one stage."""

    count: int
    plan: Any

    def expand(self, pcoll: Any) -> Any:
        step = beam.ParDo(_Limit(self.count), self.plan)
        return pcoll | "Limit" >> step.with_outputs(TALLY, main="records")


class _Limit(beam.DoFn):
    def __init__(self, count: int) -> None:
        self._count = count

    def start_bundle(self) -> None:
        self._left: dict[str, int] | None = None
        self._unprocessed = 0

    def process(self, record: Record, plan: Plan) -> Iterator[Record]:
        if self._left is None:
            self._left = quotas(plan.todo_by_span, self._count)
        left = self._left.get(record.span, 0)
        if left > 0:
            self._left[record.span] = left - 1
            yield record
        else:
            self._unprocessed += 1

    def finish_bundle(self) -> Iterator[Any]:
        yield bundle_tally({"unprocessed": self._unprocessed})
