"""One light pass over the input before any call: how many rows there are, how many are to do, which ids may repeat.

Only eight bytes of each id's digest are held, all at once in one place (8 MB for a million rows). Where two of them
are equal, repeats.py looks whether the ids are.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import numpy.typing as npt

from transforms import files
from transforms.digests import PartitionedDigests, digest, prefix
from transforms.formats.spans import Reading, Span
from transforms.journal import HEADER_FILE
from transforms.read import read_records
from transforms.records import Record
from transforms.screen import Rules, Screen

PLAN_FILE = "plan.json"
_PIECE_ROWS = 65_536
_TODO = 1  # the lowest bit of a prefix says whether the row is still to be done


class SpanPlan(NamedTuple):
    """What one span holds, or a piece of it that begins at row `at`. `todo` counts records that are worth a call and
    have no answer, `prefixes` are eight bytes for each record."""

    span: Span
    at: int
    rows: int
    todo: int
    prefixes: bytes


class Plan(NamedTuple):
    """What a run has before it: all calls that it is going to make. `todo_by_span` leaves out spans with nothing to
    do, in the order of the input."""

    rows: int
    todo: int
    todo_by_span: dict[str, int]
    repeats: dict[Span, bytes]  # spans that hold ids which may repeat, with the prefixes of those: see repeats.py


def plan_span(
    span: Span, reading: Reading, done: PartitionedDigests, screen: Screen, piece: int = _PIECE_ROWS
) -> Iterator[SpanPlan]:
    """Reads a span once. Its plan comes in pieces of up to `piece` rows: what travels is copied several times."""
    at = rows = todo = 0
    prefixes = array("Q")
    for record in read_records(span, reading):
        rows += 1
        if isinstance(record, Record):
            value = digest(record.id)
            is_todo = value not in done and isinstance(screen.check(record), Record)
            todo += is_todo
            prefixes.append(id_number(value) << 1 | is_todo)
        if rows == piece:
            yield SpanPlan(span, at, rows, todo, prefixes.tobytes())
            at, rows, todo = at + rows, 0, 0
            del prefixes[:]
    if rows:
        yield SpanPlan(span, at, rows, todo, prefixes.tobytes())


def combine(plans: Iterable[SpanPlan]) -> Plan:
    """All spans' plans as one, in two passes over `plans`. Prefixes that occur once are forgotten."""
    total = 0
    todo: dict[Span, int] = {}
    prefixes = bytearray()
    for part in plans:
        total += part.rows
        todo[part.span] = todo.get(part.span, 0) + part.todo
        prefixes += part.prefixes
    values = np.frombuffer(prefixes, np.uint64)
    values >>= _TODO
    values.sort()
    repeated = np.unique(values[1:][values[1:] == values[:-1]])
    del values, prefixes
    repeats = _repeats(plans, repeated, todo) if len(repeated) else {}
    todo_by_span = {span.key: todo[span] for span in sorted(todo, key=lambda span: span.key) if todo[span]}
    return Plan(total, sum(todo_by_span.values()), todo_by_span, repeats)


def _repeats(plans: Iterable[SpanPlan], repeated: npt.NDArray[np.uint64], todo: dict[Span, int]) -> dict[Span, bytes]:
    """The prefixes among `repeated` that each span holds. Takes records after the first from `todo`."""
    met: set[int] = set()
    found: dict[Span, set[int]] = {}
    for span, _at, numbers in sorted(_numbers_of(plans, repeated), key=lambda item: (item[0].key, item[1])):
        for number in numbers:
            if number >> _TODO in met:  # only the first record with an id can be called
                todo[span] -= number & _TODO
            met.add(number >> _TODO)
            found.setdefault(span, set()).add(number >> _TODO)
    return {span: np.array(sorted(numbers), np.uint64).tobytes() for span, numbers in found.items()}


def _numbers_of(plans: Iterable[SpanPlan], repeated: npt.NDArray[np.uint64]) -> Iterator[tuple[Span, int, list[int]]]:
    for part in plans:
        numbers = np.frombuffer(part.prefixes, np.uint64)
        yield part.span, part.at, numbers[np.isin(numbers >> _TODO, repeated)].tolist()


def id_number(value: bytes) -> int:
    """What a plan holds of an id's digest: 63 bits, as a number."""
    return prefix(value) >> _TODO


@dataclass
class MakePlan(beam.PTransform):
    """Span -> one Plan. `done` is a side input, all that resume.DoneIds makes. The numbers are also left in `folder`,
    where whoever watches the run finds them."""

    reading: Reading
    rules: Rules
    done: Any
    folder: str

    def expand(self, pcoll: Any) -> Any:
        parts = (
            pcoll
            | "Spread" >> beam.Reshuffle()
            | "PlanSpans" >> beam.ParDo(PlanSpan(self.reading, self.rules), self.done)
        )
        start = pcoll.pipeline | "Once" >> beam.Create([None])
        return start | "Combine" >> beam.Map(_combine, beam.pvalue.AsIter(parts), self.folder)


class PlanSpan(beam.DoFn):
    """Span -> SpanPlan."""

    def __init__(self, reading: Reading, rules: Rules) -> None:
        self._reading = reading
        self._rules = rules

    def setup(self) -> None:
        self._screen = Screen(self._rules)

    def start_bundle(self) -> None:
        self._done: PartitionedDigests | None = None

    def process(self, span: Span, done: Iterable[tuple[int, bytes]]) -> Iterator[SpanPlan]:
        if self._done is None:  # side inputs are the same for all of a bundle
            self._done = PartitionedDigests(done)
        yield from plan_span(span, self._reading, self._done, self._screen)


def _combine(_start: None, plans: Iterable[SpanPlan], folder: str) -> Plan:
    plan = combine(plans)
    if files.exists(files.join(folder, HEADER_FILE)):  # not where an engine repeats a run that is published
        files.write_json(files.join(folder, PLAN_FILE), {"rows": plan.rows, "todo": plan.todo})
    return plan
