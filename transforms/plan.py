"""One light pass over the input before any call: how many rows there are, how many are to do, which ids repeat.

Only eight bytes of each id's digest are held, all at once in one place (8 MB for a million rows). Where two of
them are equal, the spans that hold them are read once more to learn whether ids and contents are equal too.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from transforms import files
from transforms.digests import SIZE, DigestSet, PartitionedDigests, digest, prefix
from transforms.journal import HEADER_FILE
from transforms.read import Span, read_records
from transforms.records import Record, canonical_json

PLAN_FILE = "plan.json"
_ROW = SIZE + 8 + SIZE  # bytes of one row of a repeats table: digest, order, digest of the content
_TODO = 1  # the lowest bit of a prefix says whether the row is still to be done


class SpanPlan(NamedTuple):
    """What one span holds. `prefixes` are eight bytes a record."""

    span: Span
    rows: int
    todo: int
    prefixes: bytes


class Plan(NamedTuple):
    """What a run has before it. `todo_by_span` leaves out spans with nothing to do, in the order of the input."""

    rows: int
    todo: int
    todo_by_span: dict[str, int]
    repeats: dict[Span, bytes]  # spans that hold ids which may repeat, with the prefixes of those


def plan_span(span: Span, id_column: str | None, done: PartitionedDigests) -> SpanPlan:
    """Reads a span for its ids alone."""
    rows = todo = 0
    prefixes = array("Q")
    for record in read_records(span, id_column):
        rows += 1
        if not isinstance(record, Record):
            continue
        value = digest(record.id)
        is_todo = value not in done
        todo += is_todo
        prefixes.append(prefix(value) & ~_TODO | is_todo)
    return SpanPlan(span, rows, todo, prefixes.tobytes())


def combine(plans: Iterable[SpanPlan]) -> Plan:
    """All spans' plans as one. Prefixes that occur once are forgotten."""
    parts = sorted(plans, key=lambda part: part.span.key)
    values = np.concatenate([_numbers(part.prefixes) for part in parts] or [_numbers(b"")])
    values.sort()
    ids = values >> _TODO
    same = ids[1:] == ids[:-1]
    repeated = np.unique(ids[1:][same])
    again = int((same & (values[1:] == values[:-1]) & (values[1:] & _TODO == 1)).sum())
    del values, ids, same

    repeats: dict[Span, bytes] = {}
    for part in parts if len(repeated) else ():
        found = np.intersect1d(_numbers(part.prefixes) >> _TODO, repeated)
        if len(found):
            repeats[part.span] = found.tobytes()
    return Plan(
        rows=sum(part.rows for part in parts),
        todo=sum(part.todo for part in parts) - again,
        todo_by_span={part.span.key: part.todo for part in parts if part.todo},
        repeats=repeats,
    )


def _numbers(prefixes: bytes) -> npt.NDArray[np.uint64]:
    return np.frombuffer(prefixes, np.uint64)


def repeats_of_span(repeats: tuple[Span, bytes], id_column: str | None) -> bytes:
    """Reads a span once more for the records whose prefixes are named: rows of a repeats table, unsorted."""
    span, prefixes = repeats
    wanted = set(_numbers(prefixes).tolist())
    rows = bytearray()
    for record in read_records(span, id_column):
        if isinstance(record, Record):
            value = digest(record.id)
            if prefix(value) >> _TODO in wanted:
                order = span.order(record.position)
                rows += value + order.to_bytes(8, "big") + digest(canonical_json(record.fields))
    return bytes(rows)


def repeats_table(parts: Iterable[bytes]) -> bytes:
    """The ids that really repeat, each with the place and the content of its first record, sorted by digest."""
    rows: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for part in parts:
        for at in range(0, len(part), _ROW):
            rows[part[at : at + SIZE]].append(part[at : at + _ROW])
    return b"".join(min(found) for _value, found in sorted(rows.items()) if len(found) > 1)


class Repeats:
    """Looks up whether a record is the first with its id. Built over a table as `repeats_table` makes it."""

    def __init__(self, table: bytes = b"") -> None:
        self._table = table
        rows = np.frombuffer(table, dtype=np.uint8).reshape(-1, _ROW)
        self._ids = DigestSet(rows[:, :SIZE].tobytes())

    def first(self, value: bytes) -> tuple[int, bytes] | None:
        """Order and content digest of the first record with this id, or None where the id does not repeat."""
        at = self._ids.find(value)
        if at is None:
            return None
        row = self._table[at * _ROW : (at + 1) * _ROW]
        return int.from_bytes(row[SIZE : SIZE + 8], "big"), row[SIZE + 8 :]


@dataclass
class MakePlan(beam.PTransform):
    """Span -> {"plan": one Plan, "repeats": the table of repeated ids}. `done` is a side input, all
    that resume.DoneIds makes. The numbers are also left in `folder`, where whoever watches the run finds them."""

    id_column: str | None
    done: Any
    folder: str

    def expand(self, pcoll: Any) -> Any:
        start = pcoll.pipeline | "Once" >> beam.Create([None])
        parts = pcoll | "Spread" >> beam.Reshuffle() | "PlanSpans" >> beam.ParDo(PlanSpan(self.id_column), self.done)
        plan = start | "Combine" >> beam.Map(_combine, beam.pvalue.AsIter(parts), self.folder)
        rows = (
            plan
            | "Repeating" >> beam.FlatMap(_repeats)
            | "SpreadRepeating" >> beam.Reshuffle()
            | "ReadRepeating" >> beam.Map(repeats_of_span, self.id_column)
        )
        table = start | "RepeatsTable" >> beam.Map(_table, beam.pvalue.AsIter(rows))
        return {"plan": plan, "repeats": table}


class PlanSpan(beam.DoFn):
    """Span -> SpanPlan."""

    def __init__(self, id_column: str | None) -> None:
        self._id_column = id_column

    def start_bundle(self) -> None:
        self._done: PartitionedDigests | None = None

    def process(self, span: Span, done: Iterable[tuple[int, bytes]]) -> Iterator[SpanPlan]:
        if self._done is None:  # side inputs are the same for all of a bundle
            self._done = PartitionedDigests(done)
        yield plan_span(span, self._id_column, self._done)


def _combine(_start: None, plans: Iterable[SpanPlan], folder: str) -> Plan:
    plan = combine(plans)
    if files.exists(files.join(folder, HEADER_FILE)):  # not where an engine repeats a run that is published
        files.write_json(files.join(folder, PLAN_FILE), {"rows": plan.rows, "todo": plan.todo})
    return plan


def _repeats(plan: Plan) -> Iterable[tuple[Span, bytes]]:
    return plan.repeats.items()


def _table(_start: None, parts: Iterable[bytes]) -> bytes:
    return repeats_table(parts)
